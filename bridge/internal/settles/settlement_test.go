package settles

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// A full store serves each settlement but an extension, also the return of an item that nobody received. A settlement that was refused
// counts as nothing.
func TestWhatSettlementsDo(t *testing.T) {
	t.Parallel()
	for kind, want := range map[codec.SettleKind]struct {
		ends, makesRoom bool
		counts          request.Tally
	}{
		codec.SettleAck:      {true, true, request.Tally{request.Acknowledged: 1}},
		codec.SettleNext:     {true, true, request.Tally{request.Acknowledged: 1}},
		codec.SettleNack:     {true, true, request.Tally{request.Returned: 1, request.Nacked: 1}},
		codec.SettleBack:     {true, true, request.Tally{request.Returned: 1, request.GivenBack: 1}},
		codec.SettleTerm:     {true, true, request.Tally{request.Terminated: 1}},
		codec.SettleReturn:   {false, true, request.Tally{request.Returned: 1, request.Unreceived: 1}},
		codec.SettleProgress: {false, false, request.Tally{}},
	} {
		s := &Settlement{Settlement: codec.Settlement{Kind: kind}}
		var counts request.Tally
		s.Tally(&counts)
		if s.EndsLease() != want.ends || s.MakesRoom(true) != want.makesRoom || counts != want.counts {
			t.Errorf("kind %d ends its lease: %t, makes room: %t, counts %v", kind, s.EndsLease(), s.MakesRoom(true), counts)
		}
		s.Failure, counts = &failure.Failure{Code: 410}, request.Tally{}
		s.Tally(&counts)
		if s.EndsLease() || counts != (request.Tally{}) {
			t.Errorf("kind %d ends its lease although it was refused: %t, and counts %v", kind, s.EndsLease(), counts)
		}
	}
}

// jobs is a queue in a store.
type jobs struct {
	*testing.T
	kv.DB
	fdbpq.Queue
}

func open(t *testing.T) *jobs {
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	return &jobs{t, db, store.Queue("jobs")}
}

func (j *jobs) update(fn func(kv.Tx) error) {
	j.Helper()
	if err := j.Update(j.Context(), fn); err != nil {
		j.Fatal(err)
	}
}

// lease pushes an item, and leases it.
func (j *jobs) lease() fdbpq.Item {
	j.Helper()
	return j.leaseOf(fdbpq.NewItem{})
}

func (j *jobs) leaseOf(pushed fdbpq.NewItem) (item fdbpq.Item) {
	j.Helper()
	j.update(func(tx kv.Tx) error {
		_, err := j.Push(tx, pushed)
		return err
	})
	j.update(func(tx kv.Tx) error {
		taken, err := j.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
		if err == nil {
			item = taken.Items[0]
		}
		return err
	})
	return item
}

func (j *jobs) apply(s *Settlement) {
	j.Helper()
	j.update(func(tx kv.Tx) error {
		_, err := desk.Make(s, &desk.ChangeTx{Tx: tx, Queue: j.Queue})
		return err
	})
}

// The item remembers why it came back.
func TestSettlementGivesItsReason(t *testing.T) {
	t.Parallel()
	for _, kind := range []codec.SettleKind{codec.SettleNack, codec.SettleBack} {
		jobs := open(t)
		item := jobs.lease()
		jobs.apply(&Settlement{Settlement: codec.Settlement{Kind: kind, Lease: *item.Lease, Reason: "no disk"}})
		jobs.update(func(tx kv.Tx) error {
			back, err := jobs.Get(tx, item.ID)
			if err == nil && !strings.Contains(string(back.Attempts), "no disk") {
				t.Errorf("kind %d: the attempts are %q", kind, back.Attempts)
			}
			return err
		})
	}
}

// A transaction may run again, in another state of the store: a settlement that was refused before may take effect now.
func TestSettlementForgetsTheRunBefore(t *testing.T) {
	t.Parallel()
	jobs := open(t)
	s := &Settlement{Settlement: codec.Settlement{Kind: codec.SettleAck, Lease: *jobs.lease().Lease}}
	s.Failure = &failure.Failure{Code: 429, Text: "the store was full"}
	jobs.apply(s)
	if s.Failure != nil || !s.EndsLease() {
		t.Errorf("the settlement that took effect is refused for %v", s.Failure)
	}
}

// The queue keeps the result of an acknowledgement, and one that is large takes no room of pops.
func TestResultOfASettlement(t *testing.T) {
	t.Parallel()
	for size, large := range map[int]bool{0: false, 4 << 10: false, 4<<10 + 1: true} {
		jobs := open(t)
		item := jobs.leaseOf(fdbpq.NewItem{ResultTTL: time.Hour})
		s := &Settlement{Settlement: codec.Settlement{Kind: codec.SettleAck, Lease: *item.Lease, Result: make([]byte, size)}}
		jobs.apply(s)
		if s.kept != fdbpq.KeptWhole || s.Large() != large {
			t.Errorf("a result of %d bytes is %q, and large: %t", size, s.kept, s.Large())
		}
		jobs.update(func(tx kv.Tx) error {
			result, err := jobs.Result(tx, item.ID)
			if err == nil && len(result.Body) != size {
				t.Errorf("a result of %d bytes is kept with %d", size, len(result.Body))
			}
			return err
		})
	}
}

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
