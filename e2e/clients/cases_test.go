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

// What the page says of each client is what the table of cases says.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	page := pqd.Read(t, clientsPage)
	for _, c := range cases.Read(t, cases.File) {
		row := "| " + c.Name
		for _, client := range clientsOf {
			if _, is := c.Except[client]; is {
				row += " | no"
			} else {
				row += " | yes"
			}
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
