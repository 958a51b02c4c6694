package fdbpq_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// buried pushes an item and gives it up after some deliveries. It returns the dead letter.
func (f *fixture) buried(queue string, item fdbpq.NewItem, deliveries int) fdbpq.ID {
	f.Helper()
	f.push(queue, item)
	for range deliveries - 1 {
		if err := f.nack(*f.leaseOne(queue, time.Minute).Lease, 0); err != nil {
			f.Fatal(err)
		}
	}
	lease := f.leaseOne(queue, time.Minute).Lease
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).Terminate(tx, *lease, "no use")
		return err
	})
	var letter fdbpq.ID
	f.view(func(r kv.Reader) error {
		page, err := f.Queue(queue+"-dead").List(r, fdbpq.Listing{Limit: fdbpq.MaxBatch})
		if err == nil && len(page.Items) > 0 {
			letter = page.Items[len(page.Items)-1].ID
		}
		return err
	})
	return letter
}

func (f *fixture) requeue(queue string, id fdbpq.ID, to string) (done fdbpq.Requeued) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		done, err = f.Queue(queue).Requeue(tx, id, to)
		return err
	})
	return done
}

// A dead letter goes back to its queue as a new item.
func TestRequeue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"ttl":"1h"}`)
		payload := bytes.Repeat([]byte("large"), 40_000)
		letter := f.buried("q", fdbpq.NewItem{Payload: payload, Headers: []byte("a: b\r\n"), Priority: 7, HasPriority: true, Key: "k"}, 2)
		dead := f.get("q-dead", letter).Dead
		now := f.clock.options(0).Wall()
		if dead.Deliveries != 2 || !dead.At.Equal(now) || dead.Reason != "no use" {
			t.Errorf("the item died as %+v, expected at %s after 2 deliveries", *dead, now)
		}
		f.lease("q-dead", fdbpq.Min, 1, time.Minute) // whoever looks at it loses it
		done := f.requeue("q-dead", letter, "")
		if done.Err != nil || !done.Found || done.To != "q" || done.Priority != 7 {
			t.Fatalf("%+v", done)
		}
		back := f.get("q", done.ID)
		if !bytes.Equal(back.Payload, payload) || string(back.Headers) != "a: b\r\n" || back.Key != "k" || back.Deliveries != 0 || back.Dead != nil || back.Expires == 0 {
			t.Errorf("what came back is %+v", back.Item)
		}
		if n := f.counts("q-dead"); n != (fdbpq.Counts{}) {
			t.Errorf("there are %+v left", n)
		}
		if again := f.requeue("q-dead", letter, ""); again.Found {
			t.Errorf("it is requeued again: %+v", again)
		}
	})
}

// A dead letter stays where it is if its queue has no room for it, whether that refuses it or
// would evict it.
func TestRequeueIntoFullQueue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		letter := f.buried("q", fdbpq.NewItem{Priority: 7, HasPriority: true}, 1)
		for _, overflow := range []string{"refuse", "evict"} {
			f.configure("q", `{"max_length":1,"overflow":"`+overflow+`"}`)
			f.pushed("q", 3, "in the way")
			if done := f.requeue("q-dead", letter, "q"); !errors.Is(done.Err, fdbpq.ErrFull) {
				t.Errorf("%s: %+v", overflow, done)
			}
			if f.counts("q").Ready != 1 || f.get("q-dead", letter) == nil {
				t.Errorf("%s: there are %+v, and the dead letter is %v", overflow, f.counts("q"), f.get("q-dead", letter))
			}
			f.purge("q")
		}
		f.pushed("q", 9, "less urgent")
		if done := f.requeue("q-dead", letter, "q"); done.Err != nil || len(done.Events) != 1 || done.Events[0].Type != fdbpq.EventEvicted || f.get("q", done.ID) == nil {
			t.Errorf("in place of a less urgent one: %+v", done)
		}
		if f.counts("q").Ready != 1 || f.counts("q-dead").Ready != 0 {
			t.Errorf("there are %+v and %+v", f.counts("q"), f.counts("q-dead"))
		}
	})
}

// An item goes back only to the queue that it comes from, and only from where that has its dead
// letters go now.
func TestRequeueNeedsConsent(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("b", 0, "alive")
		f.configure("graves", `{"dead_letters_from":"a,b"}`)
		f.configure("a", `{"dead_letter":"graves"}`)
		f.configure("b", `{"dead_letter":"graves"}`)
		f.push("a", fdbpq.NewItem{})
		lease := f.leaseOne("a", time.Minute).Lease
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("a").Terminate(tx, *lease, "")
			return err
		})
		stranger := f.pushed("graves", 5, "no dead letter")[0]
		var letter fdbpq.ID
		f.view(func(r kv.Reader) error {
			page, err := f.Queue("graves").List(r, fdbpq.Listing{Limit: 1})
			letter = page.Items[0].ID
			return err
		})
		f.imports("forged-dead", fdbpq.Import{ID: letter, Dead: &fdbpq.DeadLetter{Reason: "without an origin"}})
		f.imports("b", fdbpq.Import{ID: letter, Dead: &fdbpq.DeadLetter{Reason: "its own", Origin: "b"}})
		refused := func(queue string, id fdbpq.ID, to string) {
			t.Helper()
			if done := f.requeue(queue, id, to); !errors.Is(done.Err, fdbpq.ErrRequeue) || f.get(queue, id) == nil {
				t.Errorf("%s to %q: %+v", queue, to, done)
			}
		}
		refused("graves", letter, "b")
		refused("graves", stranger, "")
		refused("graves", stranger, "b")
		refused("forged-dead", letter, "")
		refused("b", letter, "")
		f.configure("a", `{"dead_letter":""}`)
		refused("graves", letter, "a")
		f.configure("a", `{"dead_letter":"graves"}`)
		if done := f.requeue("graves", letter, ""); done.Err != nil || done.To != "a" || f.counts("a").Ready != 1 {
			t.Errorf("%+v", done)
		}
	})
}
