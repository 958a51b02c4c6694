// Package pqd is what tests of a real pqd share: requests over NATS and HTTP, campaigns of clients and faults,
// and stores in a stream. testenv starts the processes.
package pqd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Push pushes one item and fails the test unless it is acknowledged.
func Push(t *testing.T, nc *nats.Conn, queue string, priority int, body string) {
	t.Helper()
	if reply := Request(t, nc, fmt.Sprintf("pq.%s.push.%d", queue, priority), body); !testenv.IsAck(reply) {
		t.Fatalf("push %q: refused: %s %v", body, reply.Data, reply.Header)
	}
}

// Request sends a request, with pairs of headers, and returns the answer.
func Request(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for pair := range slices.Chunk(headers, 2) {
		m.Header.Add(pair[0], pair[1])
	}
	patience := testenv.Patience()
	if wait, err := time.ParseDuration(m.Header.Get(protocol.HeaderWait)); err == nil {
		patience += wait // the answer may come at its end
	}
	answer, err := nc.RequestMsg(m, patience)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// UntilServed sends a request again while nobody serves it, and so nothing was done: pqd has
// not subscribed yet, or its store does not commit for a while, on a busy machine.
func UntilServed(nc *nats.Conn, m *nats.Msg) (answer *nats.Msg, err error) {
	for late := testenv.BeginWait(); ; {
		answer, err = nc.RequestMsg(m, testenv.Patience())
		if !errors.Is(err, nats.ErrNoResponders) || late.Over() {
			return answer, err
		}
	}
}

// PushMsg pushes an item, with pairs of headers, and returns its id.
func PushMsg(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) (id string) {
	t.Helper()
	var pushed struct{ ID string }
	answer := Request(t, nc, subject, body, headers...)
	if err := json.Unmarshal(answer.Data, &pushed); err != nil || pushed.ID == "" {
		t.Fatalf("%s: %s %v", subject, answer.Data, answer.Header)
	}
	return pushed.ID
}

// Lease leases the next item.
func Lease(t *testing.T, nc *nats.Conn, queue, duration string) *nats.Msg {
	t.Helper()
	item := Request(t, nc, "pq."+queue+".pop.min", "", "PQ-Lease", duration)
	if !testenv.IsItem(item) {
		t.Fatalf("a pop of %s: %v %s", queue, item.Header, item.Data)
	}
	return item
}

// Pop pops an item, and fails the test if there is none.
func Pop(t *testing.T, nc *nats.Conn, queue, end string) string {
	t.Helper()
	reply := Request(t, nc, "pq."+queue+".pop."+end, "")
	if !testenv.IsItem(reply) {
		t.Fatalf("pop: expected an item, found %v %s", reply.Header, reply.Data)
	}
	return string(reply.Data)
}

// ExpectEmpty fails the test unless the queue is empty.
func ExpectEmpty(t *testing.T, nc *nats.Conn, queue string) {
	t.Helper()
	reply := Request(t, nc, "pq."+queue+".pop.min", "")
	if status := reply.Header.Get("Status"); status != "404" {
		t.Fatalf("pop from an empty queue: expected status 404, found %q with %q", status, reply.Data)
	}
}

// Drain pops until nothing is left.
func Drain(t *testing.T, nc *nats.Conn, queue string) []string {
	t.Helper()
	var bodies []string
	for {
		reply := Request(t, nc, "pq."+queue+".pop.min", "")
		if reply.Header.Get("Status") == strconv.Itoa(404) {
			return bodies
		}
		if !testenv.IsItem(reply) {
			t.Fatalf("pop: expected an item or 404, found %v %s", reply.Header, reply.Data)
		}
		bodies = append(bodies, string(reply.Data))
	}
}

// Listed returns the ids of the items that are ready, in their order.
func Listed(t *testing.T, nc *nats.Conn, queue string) (ids []string) {
	t.Helper()
	for ask := `{"limit":1000}`; ; {
		reply, err := nc.Request("pq."+queue+".list", []byte(ask), testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Items []struct{ ID string }
			Next  string
		}
		if err := json.Unmarshal(reply.Data, &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if page.Next == "" {
			return ids
		}
		ask = fmt.Sprintf(`{"limit":1000,"after":%q}`, page.Next)
	}
}

// PushOnce pushes one item, however often it has to ask.
func PushOnce(t *testing.T, p *testenv.Process, queue, body string) {
	t.Helper()
	nc := p.Connect(t)
	m := nats.NewMsg("pq." + queue + ".push.1")
	m.Data = []byte(body)
	m.Header.Set("Nats-Msg-Id", body)
	testenv.Await(t, body+" is pushed", func() bool {
		reply, err := nc.RequestMsg(m, testenv.Attempt())
		return err == nil && reply.Header.Get("Nats-Service-Error-Code") == ""
	})
}

// PopOnce pops the item with this body, however often it has to ask.
func PopOnce(t *testing.T, nc *nats.Conn, queue, body string) {
	t.Helper()
	m := nats.NewMsg("pq." + queue + ".pop.min")
	m.Header.Set("Nats-Msg-Id", nats.NewInbox())
	testenv.Await(t, body+" is popped", func() bool {
		reply, err := nc.RequestMsg(m, testenv.Attempt())
		return err == nil && string(reply.Data) == body
	})
}

// Ask sends a request and returns its status and body. A header is a name and a value.
func Ask(t testing.TB, method, url, body string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
	}
	client := http.Client{Timeout: testenv.Patience()}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// Get reads a page.
func Get(t testing.TB, url string) (code int, body string) {
	t.Helper()
	return Ask(t, http.MethodGet, url, "")
}

// Metric is a number of the page of metrics.
func Metric(t testing.TB, page, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		text, is := strings.CutPrefix(line, name+" ")
		if !is {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return value
	}
	t.Fatalf("no %s at /metrics", name)
	return 0
}

// Files are those of a node, by their paths.
func Files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err == nil {
			all[name], err = os.ReadFile(at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Read is the text of a file.
func Read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Write writes a file that only its owner may read.
func Write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Command prepares a program that is killed when it has not ended in time.
func Command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	return within(t, testenv.Most, program, args...)
}

// Compiler prepares a program that compiles another one.
func Compiler(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	return within(t, testenv.Compile, program, args...)
}

func within(t *testing.T, limit time.Duration, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = testenv.Times(5 * time.Second) // what it has started may live on, and has its output open
	return cmd
}

// Run runs a program that ends by itself, and returns what it printed.
func Run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := Command(t, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(program), err, out, stderr.String())
	}
	return string(out)
}
