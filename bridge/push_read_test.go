package bridge

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The items of a bundle are not read where messages are read one after another, for all queues.
func TestBundlesAreReadByTheirLane(t *testing.T) {
	t.Parallel()
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	broken := &nats.Msg{Header: nats.Header{protocol.HeaderBundle: {"1000"}}, Data: []byte("none of a thousand items")}
	p := newWork(verbPush, subjects.Subject{Queue: "jobs", Verb: subjects.Push}, broken).(*push)
	if f := p.Read(w); f != nil || p.Count() != 1000 {
		t.Fatalf("it is %d pushes, refused for %v", p.Count(), f)
	}
	if _, f := p.sent.Items(); f == nil || f.Code != 400 {
		t.Errorf("its items are refused for %v", f)
	}
}
