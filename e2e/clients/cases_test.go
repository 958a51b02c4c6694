package clients_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// clientsOf are the columns of the table on the page about clients.
var clientsOf = []string{"go", "js", "python", "java", "rust", "c", "nats"}

// What the page says of each client is what the table of cases says: in a row, or in the line of what
// all of them do.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	page := pqd.Read(t, clientsPage)
	_, line, _ := strings.Cut(page, "\nAll of them do: ")
	line, _, _ = strings.Cut(line, ".\n")
	all := strings.Split(line, "; ")
	for _, c := range cases.Read(t, cases.File) {
		row := "| " + c.Name
		for _, client := range clientsOf {
			if _, is := c.Except[client]; is {
				row += " | no"
			} else {
				row += " | yes"
			}
		}
		if len(c.Except) == 0 {
			if !slices.Contains(all, c.Name) {
				t.Errorf("%s: all clients do %q, and the line of what all of them do lacks it: %q", clientsPage, c.Name, all)
			}
			continue
		}
		if slices.Contains(all, c.Name) {
			t.Errorf("%s: not all clients do %q", clientsPage, c.Name)
		}
		if !strings.Contains(page, "\n"+row+" |\n") {
			t.Errorf("%s: expected the row\n%s |", clientsPage, row)
		}
		for client := range c.Except {
			if !slices.Contains(clientsOf, client) {
				t.Errorf("%s: %s: %s is none of %q", cases.File, c.Name, client, clientsOf)
			}
		}
	}
}

// runCases runs the table with one client.
func runCases(t *testing.T, client string, start func(t *testing.T, p *testenv.Process) cases.Driver) {
	t.Helper()
	runCasesOf(t, cases.File, client, start)
}

// runCasesOf runs a table with one client.
func runCasesOf(t *testing.T, file, client string, start func(t *testing.T, p *testenv.Process) cases.Driver) {
	t.Helper()
	p := testenv.Daemon(t)
	cases.Run(t, file, client, "pq", "c", p.Connect(t), start(t, p))
	p.Stop(t)
}
