package bridge

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The items and settlements of a bundle are not read where messages are read one after
// another, for all queues, nor before the gate has counted them.
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
	broken.Data = bytes.Repeat([]byte("none of a thousand settlements\n"), 1000)
	s := newWork(verbAck, subjects.Subject{Queue: "jobs", Verb: subjects.Ack}, broken).(*settlement)
	if f := s.Read(w); f != nil || s.Count() != 1000 || s.bundle.results != nil {
		t.Fatalf("it is %d settlements, refused for %v, %d were read", s.Count(), f, len(s.bundle.results))
	}
	if all := s.bundle.read(); len(all) != 1000 || all[999].Failure == nil || all[999].Failure.Code != 400 {
		t.Errorf("%d settlements were read, the last is refused for %v", len(all), all[999].Failure)
	}
}

// What arrives behind a bundle of settlements is started behind it, unless it is for another
// queue.
func TestSettlementsWaitForTheBundleBefore(t *testing.T) {
	t.Parallel()
	read, goOn, started := make(chan struct{}), make(chan struct{}), make(chan *settlement, 4)
	var r bundleReader
	r.init(func(s *settlement) {
		if s.bundle != nil && s.number == 1 {
			close(read)
			<-goOn
		}
		started <- s
	})
	of := func(queue string, number int, bundle *settlements) *settlement {
		s := &settlement{bundle: bundle, number: number}
		s.Subject.Queue = queue
		return s
	}
	first, second, third := of("jobs", 1, new(settlements)), of("jobs", 2, nil), of("jobs", 3, new(settlements))
	other := of("mails", 4, nil)
	for _, s := range []*settlement{first, second, third} {
		r.submit(s)
	}
	<-read
	r.submit(other)
	if s := <-started; s != other {
		t.Errorf("settlement %d is started while a bundle of its queue is read", s.number)
	}
	close(goOn)
	for _, want := range []*settlement{first, second, third} {
		if s := <-started; s != want {
			t.Errorf("settlement %d is started, expected %d", s.number, want.number)
		}
	}
}
