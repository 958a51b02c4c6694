package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

var patience = testenv.Patience

// push pushes one item and fails the test unless it is acknowledged.
func push(t *testing.T, nc *nats.Conn, queue string, priority int, body string) {
	t.Helper()
	if reply := request(t, nc, fmt.Sprintf("pq.%s.push.%d", queue, priority), body); !isAck(reply) {
		t.Fatalf("push %q: refused: %s %v", body, reply.Data, reply.Header)
	}
}

// request sends a request, with pairs of headers, and returns the answer.
func request(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for pair := range slices.Chunk(headers, 2) {
		m.Header.Add(pair[0], pair[1])
	}
	answer, err := nc.RequestMsg(m, patience)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// untilServed sends a request again while nobody serves it, and so nothing was done: pqd has
// not subscribed yet, or its store does not commit for a while, on a busy machine.
func untilServed(nc *nats.Conn, m *nats.Msg) (answer *nats.Msg, err error) {
	for late := time.Now().Add(patience); ; {
		answer, err = nc.RequestMsg(m, patience)
		if !errors.Is(err, nats.ErrNoResponders) || time.Now().After(late) {
			return answer, err
		}
	}
}

// pushMsg pushes an item, with pairs of headers, and returns its id.
func pushMsg(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) (id string) {
	t.Helper()
	var pushed struct{ ID string }
	answer := request(t, nc, subject, body, headers...)
	if err := json.Unmarshal(answer.Data, &pushed); err != nil || pushed.ID == "" {
		t.Fatalf("%s: %s %v", subject, answer.Data, answer.Header)
	}
	return pushed.ID
}

// lease leases the next item.
func lease(t *testing.T, nc *nats.Conn, queue, duration string) *nats.Msg {
	t.Helper()
	item := request(t, nc, "pq."+queue+".pop.min", "", "PQ-Lease", duration)
	if !isItem(item) {
		t.Fatalf("a pop of %s: %v %s", queue, item.Header, item.Data)
	}
	return item
}

func isAck(reply *nats.Msg) bool  { return testenv.IsAck(reply) }
func isItem(reply *nats.Msg) bool { return testenv.IsItem(reply) }

// pop pops an item, and fails the test if there is none.
func pop(t *testing.T, nc *nats.Conn, queue, end string) string {
	t.Helper()
	reply := request(t, nc, "pq."+queue+".pop."+end, "")
	if !isItem(reply) {
		t.Fatalf("pop: expected an item, found %v %s", reply.Header, reply.Data)
	}
	return string(reply.Data)
}

// expectEmpty fails the test unless the queue is empty.
func expectEmpty(t *testing.T, nc *nats.Conn, queue string) {
	t.Helper()
	reply := request(t, nc, "pq."+queue+".pop.min", "")
	if status := reply.Header.Get("Status"); status != "404" {
		t.Fatalf("pop from an empty queue: expected status 404, found %q with %q", status, reply.Data)
	}
}

// drain pops until nothing is left.
func drain(t *testing.T, nc *nats.Conn, queue string) []string {
	t.Helper()
	var bodies []string
	for {
		reply := request(t, nc, "pq."+queue+".pop.min", "")
		if reply.Header.Get("Status") == strconv.Itoa(404) {
			return bodies
		}
		if !isItem(reply) {
			t.Fatalf("pop: expected an item or 404, found %v %s", reply.Header, reply.Data)
		}
		bodies = append(bodies, string(reply.Data))
	}
}
