package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A bridge that leaves takes no more requests.
func TestOwnerThatLeaves(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	w.passes(others[0], "before")
	w.serves(owner, "before")
	w.settled(others...)
	w.leaves(owner)
	w.keeps(others[0], "the owner leaves")
	w.idle(owner)
	if passed, _ := others[0].Counts(); passed != 1 {
		t.Errorf("%d requests are counted that were passed on, expected 1", passed)
	}
}

// A bridge that leaves goes on taking requests until the others have none under way to it. They
// serve what they have not sent yet.
func TestLeavingWaitsForOthers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	owner.gate.Lock()
	w.passes(others[1], "first")
	w.message(between + ".to.")
	w.settled(others[1]) // it is taken, and those behind it are not looked at yet
	w.passes(others[0], "sent")
	w.message(between + ".to.")
	w.passes(others[0], "waits")
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.serves(others[0], "waits")
	w.waits(left, "leaves while a request is under way to it")
	owner.gate.Unlock()
	if err := <-left; err != nil {
		t.Error(err)
	}
	w.serves(owner, "first")
	w.serves(owner, "sent")
	w.settled(others...)
	w.idle(others...)
	if len(others[0].unsure) > 0 {
		t.Error("a request is unknown that was taken")
	}
}

// A bridge that is silent, or says nothing of its requests, keeps none from leaving.
func TestLeavingDoesNotWaitForTheDead(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	others[0].nc.Close()
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.message(words + "_sys")
	w.waits(left, "leaves without those that were there a moment ago")
	w.clock.Add(int64(1600 * time.Millisecond))
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// A bridge whose server is away leaves at once.
func TestLeavingWithoutServer(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	alone := w.started("a")
	down := alone.nc.StatusChanged(nats.RECONNECTING)
	w.server.Shutdown()
	<-down
	atOnce, cancel := context.WithCancel(t.Context())
	cancel()
	if err := alone.Leave(atOnce); err != nil {
		t.Error(err)
	}
}

// A bridge that leaves while requests come serves all that it receives.
func TestLeavingLosesNothing(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	w.unspied()
	const n = 2000
	left := make(chan error, 1)
	passed := 0
	for i := range n {
		if i == n/2 {
			go func() { left <- owner.Leave(t.Context()) }()
		}
		if others[0].Pass("jobs", pop("x")) {
			passed++
		}
	}
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	w.settled(others...)
	if n := len(owner.served) + len(others[0].served); n != passed {
		t.Errorf("of %d requests that were passed on %d are served", passed, n)
	}
}

// A bridge that leaves serves what it has received, also what waits behind other requests.
func TestLeavingServesWhatWaits(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	owner.gate.Lock()
	for _, b := range others {
		w.passes(b, b.id)
	}
	w.message(between + ".to.")
	w.message(between + ".to.")
	w.flush(owner.nc)
	for len(w.said) > 0 {
		<-w.said
	}
	left := make(chan error, 1)
	go func() { left <- owner.Leave(t.Context()) }()
	w.message(words + "_sys") // that it goes
	w.waits(left, "leaves while requests wait")
	owner.gate.Unlock()
	if err := <-left; err != nil {
		t.Error(err)
	}
	if len(owner.served) != 2 {
		t.Errorf("%d requests are served of 2 that have arrived", len(owner.served))
	}
	w.settled(others...)
}

// unspied ends the client's subscription, which the server would take for the subscription of a bridge.
func (w *owners) unspied() {
	w.Helper()
	if err := w.spying.Unsubscribe(); err != nil {
		w.Fatal(err)
	}
	w.flush(w.spy)
}

// leaves has a bridge leave.
func (w *owners) leaves(b *bridge) {
	w.Helper()
	if err := b.Leave(w.Context()); err != nil {
		w.Fatal(err)
	}
}
