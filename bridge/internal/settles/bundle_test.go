package settles

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The settlements of a bundle are not read where messages are read one after
// another, for all queues, nor before the gate has counted them.
func TestBundleIsReadBehindTheReceiver(t *testing.T) {
	t.Parallel()
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	broken := &nats.Msg{Header: nats.Header{protocol.HeaderBundle: {"1000"}}, Data: bytes.Repeat([]byte("none of a thousand settlements\n"), 1000)}
	s := Ack(subjects.Ack).(*Settlement)
	s.Prepare(s, new(request.Verb), subjects.Subject{Queue: "jobs", Verb: subjects.Ack}, broken)
	if f := s.Read(w); f != nil || s.Count() != 1000 || s.bundle.results != nil {
		t.Fatalf("it is %d settlements, refused for %v, %d were read", s.Count(), f, len(s.bundle.results))
	}
	if all := s.bundle.read(); len(all) != 1000 || all[999].Failure == nil || all[999].Failure.Code != 400 {
		t.Errorf("%d settlements were read, the last is refused for %v", len(all), all[999].Failure)
	}
}

// A result in a bundle takes as much of a turn as in a message of its own.
func TestResultsInBundleWeigh(t *testing.T) {
	t.Parallel()
	limit := func() int64 { return protocol.MaxPayload }
	w, err := codec.New("pq", []byte("secret"), limit)
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	lease := open(t).lease().Lease
	ack := "PQ-Ack: pq.jobs.ack.c." + string(w.Sealer.Append(nil, lease, codec.Terms{Lease: time.Minute})) + "\n"
	sizes := []int{0, 1, largeResult, largeResult + 1, 1 << 20}
	m := &nats.Msg{Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(sizes))}, protocol.HeaderFrames: {"true"}}}
	for _, size := range sizes {
		m.Data = protocol.AppendFrame(m.Data, []byte(ack), append([]byte("+ACK "), make([]byte, size)...))
	}
	s := Ack(subjects.Ack).(*Settlement)
	s.Prepare(s, new(request.Verb), subjects.Subject{Queue: "jobs", Verb: subjects.Ack}, m)
	if f := s.Read(w); f != nil {
		t.Fatal(f)
	}
	for i, one := range s.bundle.read() {
		if size := sizes[i]; one.Failure != nil || len(one.Result) != size || one.Size() < size || one.Large() != (size > largeResult) {
			t.Errorf("a result of %d bytes is refused for %v, weighs %d, and is large: %t", size, one.Failure, one.Size(), one.Large())
		}
	}
}

// What arrives behind a bundle of settlements is started behind it, unless it is for another
// queue.
func TestSettlementsWaitForTheBundleBefore(t *testing.T) {
	t.Parallel()
	read, goOn, started := make(chan struct{}), make(chan struct{}), make(chan *Settlement, 4)
	var r reader
	r.init(func(s *Settlement) {
		if s.bundle != nil && s.number == 1 {
			close(read)
			<-goOn
		}
		started <- s
	})
	of := func(queue string, number int, of *bundle) *Settlement {
		s := &Settlement{bundle: of, number: number}
		s.Subject.Queue = queue
		return s
	}
	first, second, third := of("jobs", 1, new(bundle)), of("jobs", 2, nil), of("jobs", 3, new(bundle))
	other := of("mails", 4, nil)
	for _, s := range []*Settlement{first, second, third} {
		r.submit(s)
	}
	<-read
	r.submit(other)
	if s := <-started; s != other {
		t.Errorf("settlement %d is started while a bundle of its queue is read", s.number)
	}
	close(goOn)
	for _, want := range []*Settlement{first, second, third} {
		if s := <-started; s != want {
			t.Errorf("settlement %d is started, expected %d", s.number, want.number)
		}
	}
}
