package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// An import interrupted by a crash has all acknowledged items. After it is repeated, the
// queue equals the exported one: no item is missing or double, and the order is the same.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	const (
		items   = 1500
		answers = 300 // before the crash
		window  = 64
	)
	from := testenv.Daemon(t)
	nc := from.Connect(t)
	var want []string
	for i := range items {
		want = append(want, fmt.Sprint("item ", i))
	}
	inFlight(t, nc, window, items, func(i int) *nats.Msg {
		return &nats.Msg{Subject: fmt.Sprintf("pq.old.push.%d", i*10/items), Data: []byte(want[i])}
	}, nil)
	var exported []*nats.Msg
	for _, id := range pqd.Listed(t, nc, "old") {
		item, err := nc.Request("pq.old.get."+id, nil, testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		exported = append(exported, &nats.Msg{Subject: "pq.new.import", Header: item.Header, Data: item.Data})
	}
	nc.Close()
	from.Stop(t)

	to := testenv.Daemon(t)
	nc = to.Connect(t, nats.NoReconnect())
	answered := 0
	inFlight(t, nc, window, items, func(i int) *nats.Msg { return exported[i] }, func() bool {
		answered++
		return answered < answers
	})
	to.Kill(t)
	nc.Close()

	to.Start(t)
	nc = to.Connect(t)
	for _, item := range exported[:answers-window] { // in that order they were sent, and in that one they were answered
		id := item.Header.Get("PQ-Id")
		if there, err := nc.Request("pq.new.get."+id, nil, testenv.Patience()); err != nil || string(there.Data) != string(item.Data) {
			t.Fatalf("%s was imported and is not there: %v, %v", id, there, err)
		}
	}
	inFlight(t, nc, window, items, func(i int) *nats.Msg { return exported[i] }, nil)
	if got := pqd.Drain(t, nc, "new"); !slices.Equal(got, want) {
		t.Errorf("popped %d items, expected the %d that were exported, in their order", len(got), items)
	}
	nc.Close()
	to.Stop(t)
}

// inFlight sends n requests, window at a time, until answered returns false. Every answer
// must be that of a push.
func inFlight(t *testing.T, nc *nats.Conn, window, n int, request func(int) *nats.Msg, answered func() bool) {
	t.Helper()
	inbox := nc.NewInbox()
	replies := make(chan *nats.Msg, n)
	sub, err := nc.ChanSubscribe(inbox, replies)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	for sent, got := 0, 0; got < n; got++ {
		for ; sent < n && sent < got+window; sent++ {
			m := request(sent)
			m.Reply = inbox
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case reply := <-replies:
			if !testenv.IsAck(reply) {
				t.Fatalf("answer: %v %s", reply.Header, reply.Data)
			}
		case <-testenv.Late():
			t.Fatal("no answer")
		}
		if answered != nil && !answered() {
			return
		}
	}
}
