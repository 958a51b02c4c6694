package main_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

const patience = testenv.Patience

// push pushes one item and fails the test unless it is acknowledged.
func push(t *testing.T, nc *nats.Conn, queue string, priority int, body string) {
	t.Helper()
	reply, err := nc.Request(fmt.Sprintf("pq.%s.push.%d", queue, priority), []byte(body), patience)
	if err != nil {
		t.Fatalf("push %q: %v", body, err)
	}
	if !isAck(reply) {
		t.Fatalf("push %q: refused: %s %v", body, reply.Data, reply.Header)
	}
}

func isAck(reply *nats.Msg) bool  { return testenv.IsAck(reply) }
func isItem(reply *nats.Msg) bool { return testenv.IsItem(reply) }

// pop pops an item, and fails the test if there is none.
func pop(t *testing.T, nc *nats.Conn, queue, end string) string {
	t.Helper()
	reply, err := nc.Request("pq."+queue+".pop."+end, nil, patience)
	if err != nil {
		t.Fatalf("pop: %v", err)
	}
	if !isItem(reply) {
		t.Fatalf("pop: expected an item, found %v %s", reply.Header, reply.Data)
	}
	return string(reply.Data)
}

// expectEmpty fails the test unless the queue is empty.
func expectEmpty(t *testing.T, nc *nats.Conn, queue string) {
	t.Helper()
	reply, err := nc.Request("pq."+queue+".pop.min", nil, patience)
	if err != nil {
		t.Fatalf("pop: %v", err)
	}
	if status := reply.Header.Get("Status"); status != "404" {
		t.Fatalf("pop from an empty queue: expected status 404, found %q with %q", status, reply.Data)
	}
}

// drain pops until nothing is left.
func drain(t *testing.T, nc *nats.Conn, queue string) []string {
	t.Helper()
	var bodies []string
	for {
		reply, err := nc.Request("pq."+queue+".pop.min", nil, patience)
		if err != nil {
			t.Fatalf("pop: %v", err)
		}
		if reply.Header.Get("Status") == strconv.Itoa(404) {
			return bodies
		}
		if !isItem(reply) {
			t.Fatalf("pop: expected an item or 404, found %v %s", reply.Header, reply.Data)
		}
		bodies = append(bodies, string(reply.Data))
	}
}
