package request_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	. "github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func newRequest(v *Verb, share *Share, bytes int) *Request {
	r := &Request{Share: share}
	r.Prepare(nil, v, subjects.Subject{}, &nats.Msg{Subject: "s", Data: []byte(strings.Repeat("x", bytes))})
	return r
}

// A share has its part of the requests and of the bytes, and settlements go beyond it. What leaves gives back its place.
func TestShare(t *testing.T) {
	t.Parallel()
	g := NewGate(100, 1<<20)
	share := &Share{Requests: 2, Bytes: 1000}
	verb, settles := new(Verb), &Verb{Settles: true}
	enter := func(r *Request, want bool) *Request {
		t.Helper()
		f := g.Enter(r)
		if (f == nil) != want || f != nil && f.Reason != protocol.ReasonBusy {
			t.Fatalf("entered: %v", f)
		}
		return r
	}
	first := enter(newRequest(verb, share, 10), true)
	enter(newRequest(verb, share, 10), true)
	enter(newRequest(verb, share, 10), false)
	enter(newRequest(settles, share, 10), true)
	enter(newRequest(verb, new(Share), 10), true)
	g.Leave(first)
	g.Leave(first)
	if share.Idle() {
		t.Error("nothing is in flight")
	}
	share.Requests = 100
	enter(newRequest(verb, share, 1000), false)
	kept := newRequest(verb, share, 1000)
	kept.Keep()
	enter(kept, true)
}

// What is to be done when a request leaves the gate is done once, though it comes back.
func TestOnLeave(t *testing.T) {
	t.Parallel()
	g := NewGate(100, 1<<20)
	r := newRequest(new(Verb), nil, 10)
	left := 0
	r.OnLeave = func() { left++ }
	if f := g.Enter(r); f != nil {
		t.Fatal(f)
	}
	g.Leave(r)
	g.Return(r)
	g.Leave(r)
	if left != 1 {
		t.Errorf("it left %d times", left)
	}
}
