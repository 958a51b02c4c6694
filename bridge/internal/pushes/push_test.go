package pushes

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The items of a bundle are not read where messages are read one after another, for all queues, nor before the gate has
// counted them.
func TestBundleIsReadByItsLine(t *testing.T) {
	t.Parallel()
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	p := Push(subjects.Push).(*push)
	p.Subject = subjects.Subject{Queue: "jobs", Verb: subjects.Push}
	p.Msg = &nats.Msg{Header: nats.Header{protocol.HeaderBundle: {"1000"}}, Data: []byte("none of a thousand items")}
	if f := p.Read(w); f != nil || p.Count() != 1000 {
		t.Fatalf("it is %d pushes, refused for %v", p.Count(), f)
	}
	if _, f := p.sent.Items(); f == nil || f.Code != 400 {
		t.Errorf("its items are refused for %v", f)
	}
}

// All pushes to a queue that nobody has made are refused for the same reason, so none of them is tried alone.
func TestErrorsOfAllPushes(t *testing.T) {
	t.Parallel()
	l := New(&desk.Lane{})
	for err, want := range map[error]bool{
		kv.ErrUnavailable: true, fdbpq.ErrNoQueue: true, fmt.Errorf("push: %w", fdbpq.ErrNoQueue): true, kv.ErrTooLarge: false, fdbpq.ErrContent: false,
	} {
		if got := l.Common(err); got != want {
			t.Errorf("%v concerns all pushes: %t", err, got)
		}
	}
}
