// Package pqd is what tests of a real pqd share: requests over NATS and HTTP, campaigns of clients and faults,
// and stores in a stream. testenv starts the processes.
package pqd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
