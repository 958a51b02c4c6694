package fdbpq_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// handOver pushes an item that acknowledges a leased one.
func (f *fixture) handOver(queue string, lease fdbpq.Lease, item fdbpq.NewItem) fdbpq.Pushed {
	f.Helper()
	item.HandOver = &lease
	return f.push(queue, item)[0]
}

// A push that hands over an item acknowledges it, or does nothing.
func TestHandOver(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("jobs", `{"hand_over":"mails"}`)
		f.pushed("jobs", 0, "1", "2", "3")
		first := f.leaseOne("jobs", time.Minute)
		if p := f.handOver("mails", *first.Lease, fdbpq.NewItem{Payload: []byte("one")}); p.Err != nil || p.Duplicate {
			t.Errorf("hand-over: %+v", p)
		}
		f.has("after the first", map[string]int64{"jobs": 2, "mails": 1})
		if got := f.get("jobs", first.ID); got != nil {
			t.Errorf("the item is still there: %+v", got)
		}

		var lost *fdbpq.LostError
		if p := f.handOver("mails", *first.Lease, fdbpq.NewItem{}); !errors.As(p.Err, &lost) || lost.Reason != fdbpq.LostGone {
			t.Errorf("a second hand-over: %+v, expected gone", p)
		}
		late := f.leaseOne("jobs", time.Second)
		f.pass(time.Minute)
		f.sweep()
		if p := f.handOver("mails", *late.Lease, fdbpq.NewItem{}); p.Err != nil {
			t.Errorf("a late hand-over: %+v, expected to hold as a late acknowledgement does", p)
		}
		taken := f.leaseOne("jobs", time.Second)
		f.pass(time.Minute)
		f.sweep()
		f.leaseOne("jobs", time.Minute)
		if p := f.handOver("mails", *taken.Lease, fdbpq.NewItem{}); !errors.As(p.Err, &lost) || lost.Reason != fdbpq.LostTaken {
			t.Errorf("a hand-over of an item with a later lease: %+v, expected taken", p)
		}
		f.has("in the end", map[string]int64{"mails": 2})
		if got := f.counts("jobs"); got.Length() != 1 || got.Leased != 1 {
			t.Errorf("the queue has %+v, expected the item that was leased again", got)
		}
	})
}

// A push that is refused undoes nothing and hands over nothing; other pushes of its batch
// hold.
func TestRefusedHandOver(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("jobs", `{"hand_over":"mail,mails-2"}`)
		f.pushed("jobs", 0, "1", "2")
		lease := f.leaseOne("jobs", time.Minute).Lease
		if p := f.handOver("mails", *lease, fdbpq.NewItem{}); !errors.Is(p.Err, fdbpq.ErrHandOver) {
			t.Errorf("to a queue that is not named: %+v", p)
		}
		f.has("after a refusal", map[string]int64{"jobs": 1, "mails": 0})
		f.configure("jobs", `{"hand_over":"*"}`)
		f.configure("mails", `{"max_length":1}`)
		for what, item := range map[string]fdbpq.NewItem{
			"delayed for too long":   {Delay: fdbpq.MaxDelay + 1},
			"too large":              {Payload: make([]byte, fdbpq.MaxContent+1)},
			"an id that is too long": {MsgID: string(make([]byte, fdbpq.MaxMsgID+1))},
		} {
			if p := f.handOver("mails", *lease, item); p.Err == nil {
				t.Errorf("%s: %+v", what, p)
			}
		}
		item := fdbpq.NewItem{HandOver: lease}
		for i, p := range f.push("mails", fdbpq.NewItem{}, item) {
			if errors.Is(p.Err, fdbpq.ErrFull) != (i == 1) {
				t.Errorf("push %d to a queue with one place: %+v", i, p)
			}
		}
		f.has("after refusals", map[string]int64{"jobs": 1, "mails": 1})
		if err := f.ack(*lease); err != nil {
			t.Errorf("the lease is lost: %v", err)
		}
	})
}

// A push under a known id adds nothing, and still acknowledges the item: its first
// attempt was made under an earlier lease.
func TestHandOverAgain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("jobs", `{"hand_over":"mails"}`)
		f.pushed("jobs", 0, "1", "2")
		lease := *f.leaseOne("jobs", time.Minute).Lease
		item := fdbpq.NewItem{MsgID: "1"}
		first := f.handOver("mails", lease, item)
		again := f.handOver("mails", lease, item)
		if first.Err != nil || again.Err != nil || !again.Duplicate || again.ID != first.ID {
			t.Errorf("%+v, and again %+v", first, again)
		}
		next := *f.leaseOne("jobs", time.Minute).Lease
		f.configure("jobs", `{"hand_over":""}`)
		if p := f.handOver("mails", next, item); !errors.Is(p.Err, fdbpq.ErrHandOver) {
			t.Errorf("a known id without consent: %+v", p)
		}
		if p := f.handOver("mails", lease, item); p.Err != nil || !p.Duplicate {
			t.Errorf("a known id whose item was handed over, without consent now: %+v", p)
		}
		f.configure("jobs", `{"hand_over":"mails"}`)
		if p := f.handOver("mails", next, item); p.Err != nil || !p.Duplicate {
			t.Errorf("a known id under another lease: %+v", p)
		}
		f.has("in the end", map[string]int64{"mails": 1})
		if got := f.counts("jobs"); got.Length() != 0 {
			t.Errorf("the queue has %+v, expected nothing", got)
		}
	})
}

// An item that is handed over within its queue leaves room for the new one.
func TestHandOverWithinAQueue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":2,"hand_over":"q"}`)
		f.pushed("q", 0, "1", "2")
		lease := *f.leaseOne("q", time.Minute).Lease
		if p := f.handOver("q", lease, fdbpq.NewItem{Payload: []byte("3")}); p.Err != nil {
			t.Errorf("%+v", p)
		}
		f.has("in the end", map[string]int64{"q": 2})
		f.delete("q")
		var lost *fdbpq.LostError
		if p := f.handOver("q", lease, fdbpq.NewItem{}); !errors.As(p.Err, &lost) || lost.Reason != fdbpq.LostGone {
			t.Errorf("in a queue that was deleted: %+v", p)
		}
		f.has("after the refusal", map[string]int64{"q": 0})
	})
}

// A queue that has more than it may does not grow by an item that is handed over within it, unless the
// new one is longer. Nothing but what grows is a reason to refuse it.
func TestHandOverWithinAQueueBeyondItsLimits(t *testing.T) {
	t.Parallel()
	for _, overflow := range []string{"refuse", "evict"} {
		t.Run(overflow, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"hand_over":"q"}`)
				f.pushed("q", 0, "1", "2", "3")
				held := f.lease("q", fdbpq.Min, 3, time.Hour).Items
				f.configure("q", fmt.Sprintf(`{"max_length":2,"max_bytes":600,"overflow":%q}`, overflow))
				push := func(n int, payload string) error {
					return f.handOver("q", *held[n].Lease, fdbpq.NewItem{Payload: []byte(payload), Delay: time.Hour}).Err
				}
				if err := push(0, "4"); err != nil {
					t.Errorf("as long as the one before: %v", err)
				}
				if err := push(1, ""); err != nil {
					t.Errorf("shorter than the one before: %v", err)
				}
				if err := push(2, "55"); !errors.Is(err, fdbpq.ErrFull) || !strings.Contains(err.Error(), "max_bytes is 600") {
					t.Errorf("longer than the one before: %v, expected the queue to be full of bytes", err)
				}
				if p := f.push("q", fdbpq.NewItem{Delay: time.Hour})[0]; !errors.Is(p.Err, fdbpq.ErrFull) || !strings.Contains(p.Err.Error(), "max_length is 2") {
					t.Errorf("one more: %+v, expected the queue to be full of items", p)
				}
				if n := f.counts("q"); n.Leased != 1 || n.Delayed != 2 {
					t.Errorf("there are %+v", n)
				}
			})
		})
	}
}

// A push that hands over an item is refused if the item that it adds would be evicted:
// both would be gone.
func TestHandOverToAQueueThatEvicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		from     string
		priority int64
		delay    time.Duration
		refused  bool
	}{
		{"more urgent than the last", "jobs", 4, 0, false},
		{"as urgent as the last", "jobs", 5, 0, true},
		{"less urgent", "jobs", 6, 0, true},
		{"delayed", "jobs", 6, time.Minute, false},
		{"in the place of one that leaves", "q", 6, 0, false},
		{"among leased ones alone", "jobs", 4, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("jobs", `{"hand_over":"*"}`)
				f.configure("q", `{"max_length":3,"overflow":"evict","hand_over":"*"}`)
				f.pushed("jobs", 0, "1")
				f.pushed("q", 0, "1")
				f.pushed("q", 5, "2", "3")
				if c.name == "among leased ones alone" {
					f.lease("q", fdbpq.Min, 3, time.Hour)
				}
				lease := *f.leaseOne(c.from, time.Minute).Lease
				p := f.handOver("q", lease, fdbpq.NewItem{Priority: c.priority, HasPriority: true, Delay: c.delay})
				if p.Evicted || errors.Is(p.Err, fdbpq.ErrFull) != c.refused || (p.Err != nil) != c.refused {
					t.Errorf("%+v, expected a refusal: %v", p, c.refused)
				}
				if got := f.counts("q").Length(); got != 3 {
					t.Errorf("the queue has %d items, expected 3", got)
				}
			})
		})
	}
}

// A queue that is far too long evicts eight items a push. A push hands over only if the
// new item is not one of them.
func TestHandOverToAQueueThatIsFarTooLong(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"hand_over":"*"}`)
		f.pushed("q", 0, "leased")
		for priority := range int64(12) {
			f.pushed("q", 10+priority, "x")
		}
		f.configure("q", `{"max_length":2,"overflow":"evict"}`)
		lease := *f.leaseOne("q", time.Minute).Lease
		handOver := func(priority int64) fdbpq.Pushed {
			return f.handOver("q", lease, fdbpq.NewItem{Priority: priority, HasPriority: true})
		}
		if p := handOver(14); !errors.Is(p.Err, fdbpq.ErrFull) { // seven are less urgent
			t.Errorf("%+v, expected to be refused as full", p)
		}
		if p := handOver(13); p.Err != nil || p.Evicted || len(p.Events) != 8 {
			t.Errorf("%+v, expected to evict eight others", p)
		}
	})
}

// An item whose lease has run out stands in its queue. When it is handed over within the
// queue, it does not count among those that are evicted instead of the new one.
func TestLateHandOverToAQueueThatEvicts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "1")
		f.pushed("q", 3, "2")
		f.pushed("q", 5, "late")
		lease := *f.lease("q", fdbpq.Max, 1, time.Second).Items[0].Lease
		f.pass(time.Minute)
		f.sweep()
		f.configure("q", `{"max_length":1,"overflow":"evict","hand_over":"q"}`)
		if p := f.handOver("q", lease, fdbpq.NewItem{Priority: 4, HasPriority: true}); !errors.Is(p.Err, fdbpq.ErrFull) {
			t.Errorf("%+v, expected to be refused as full", p)
		}
		if p := f.handOver("q", lease, fdbpq.NewItem{Priority: 2, HasPriority: true}); !errors.Is(p.Err, fdbpq.ErrFull) {
			t.Errorf("%+v, expected to be refused as full", p)
		}
		f.configure("q", `{"max_length":2}`)
		if p := f.handOver("q", lease, fdbpq.NewItem{Priority: 2, HasPriority: true}); p.Err != nil || p.Evicted || len(p.Events) != 1 {
			t.Errorf("%+v, expected to evict another one", p)
		}
	})
}
