package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
)

// lease leases an item.
func (w *world) lease(id fdbpq.ID, holder string) (lease fdbpq.Lease) {
	w.Helper()
	w.update(func(tx kv.Tx, q fdbpq.Queue) error {
		band := fdbpq.Band{Low: id.Priority(), High: id.Priority()}
		leased, err := q.Lease(tx, fdbpq.Selection{Limit: 1, Band: &band, Holders: []string{holder}}, time.Hour)
		if err == nil {
			lease = *leased.Items[0].Lease
		}
		return err
	})
	return lease
}

// fail has items fail some times each, and come back after a delay.
func (w *world) fail(times int, delay time.Duration, ids ...fdbpq.ID) {
	w.Helper()
	for n := range times {
		for _, id := range ids {
			later := time.Duration(0)
			if n == times-1 {
				later = delay
			}
			lease := w.lease(id, "vm-7")
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				_, err := q.Nack(tx, lease, fdbpq.Nack{Delay: &later, Reason: "smtp 550"})
				return err
			})
			w.recent.Failures++
		}
	}
}

// first is the item that comes first.
func (w *world) first() (id fdbpq.ID) {
	w.Helper()
	w.update(func(tx kv.Tx, q fdbpq.Queue) error {
		peeked, err := q.Peek(tx, fdbpq.Selection{Limit: 1})
		if err == nil {
			id = peeked.Items[0].ID
		}
		return err
	})
	return id
}

func (w *world) pushLater(priority int64) {
	w.update(func(tx kv.Tx, q fdbpq.Queue) error {
		_, err := q.Push(tx, fdbpq.NewItem{Priority: priority, HasPriority: true, Delay: time.Hour})
		return err
	})
}

// A queue is failing where its items are tried and fail, and nothing succeeds, whether they are delayed, ready or leased. Items that
// were never tried do not hide that, where they wait for their time; where they are ready or leased they may be what moves.
func TestFailing(t *testing.T) {
	t.Parallel()
	waits := func(w *world) { w.waiting = []fdbpq.Band{all} }
	for name, c := range map[string]struct {
		of    func(w *world)
		cause protocol.Cause
		items int64
		says  string
	}{
		"one failure of one item": {func(w *world) { w.fail(1, time.Minute, w.push(1)) }, "delayed", 1,
			"1 item is delayed: the first becomes ready in 1m0s. 1 item has failed, the last: smtp 550, held by vm-7; it is tried again in 1m0s, attempt 2 of 16."},
		"two failures of one item": {func(w *world) { w.fail(2, time.Minute, w.push(1)) }, "failing", 1,
			"1 item has failed, the last: smtp 550, held by vm-7; it is tried again in 1m0s, attempt 3 of 16."},
		"one failure of two items": {func(w *world) { w.fail(1, time.Minute, w.push(1), w.push(2)) }, "failing", 2,
			"2 items have failed, the last: smtp 550, held by vm-7; the first is tried again in 1m0s, attempt 2 of 16."},
		"ready again at once": {func(w *world) { waits(w); w.fail(2, 0, w.push(1), w.push(2)) }, "failing", 2, "tried again now, attempt 3 of 16."},
		"leased again": {func(w *world) {
			id := w.push(1)
			w.fail(2, 0, id)
			w.lease(id, "vm-8")
		}, "failing", 1, "held by vm-7"},
		"an item was acknowledged lately": {func(w *world) { w.fail(2, time.Minute, w.push(1)); w.recent.Acked = time.Now().Add(-40 * time.Second) }, "delayed", 1, "1 item has failed, the last: smtp 550"},
		"an item was acknowledged just now": {func(w *world) { w.fail(2, time.Minute, w.push(1)); w.pushLater(2); w.recent.Acked = time.Now() }, "delayed", 1,
			"2 items are delayed: the first becomes ready in 1m0s. 1 item has failed"},
		"nothing is known of what was acknowledged before a start": {func(w *world) {
			w.fail(2, time.Minute, w.push(1), w.push(2))
			w.began, w.recent = time.Now(), request.Recent{Failures: 1}
		}, "delayed", 2, "2 items have failed"},
		"nothing was acknowledged since a start": {func(w *world) {
			w.fail(2, time.Minute, w.push(1), w.push(2))
			w.began, w.recent = time.Now().Add(-time.Minute), request.Recent{}
		}, "failing", 2, "2 items have failed"},
		"both failures were since a start": {func(w *world) { w.began = time.Now(); w.fail(2, time.Minute, w.push(1)) }, "failing", 1, "1 item has failed"},
		"the last of many attempts failed": {func(w *world) {
			waits(w)
			w.fail(8, 0, w.push(1), w.push(2))
			w.push(3)
			w.recent.Acked = time.Now().Add(-40 * time.Second)
		}, "failing", 2, "2 items have failed"},
		"the last of many attempts failed, before many items": {func(w *world) {
			w.fail(8, 0, w.push(1), w.push(2))
			for range 16 {
				w.push(3)
			}
			waits(w)
		}, "failing", 2, "Of the first items 2 have failed, the last: smtp 550"},
		"many failed, and one was acknowledged since": {func(w *world) {
			waits(w)
			w.fail(8, 0, w.push(1), w.push(2))
			w.push(3)
			w.recent.Acked, w.recent.Failures = time.Now().Add(-time.Second), 0
		}, "flows", 0, ""},
		"many failed, and one was acknowledged a moment before": {func(w *world) {
			waits(w)
			w.fail(8, 0, w.push(1), w.push(2))
			w.recent.Acked = time.Now().Add(-20 * time.Second)
		}, "flows", 0, ""},
		"others are ready":           {func(w *world) { waits(w); w.fail(2, time.Minute, w.push(1)); w.push(2) }, "flows", 0, ""},
		"others are leased":          {func(w *world) { w.fail(2, time.Minute, w.push(1)); w.lease(w.push(2), "ann") }, "leased", 0, ""},
		"others wait for their time": {func(w *world) { w.pushLater(0); w.fail(2, time.Minute, w.push(1)); w.pushLater(2) }, "failing", 1, ""},
		"so many wait that none is seen": {func(w *world) {
			for range 64 {
				w.pushLater(0)
			}
			w.fail(2, time.Minute, w.push(1))
		}, "delayed", 0, ""},
		"all wait for their time": {func(w *world) { w.pushLater(1); w.pushLater(2) }, "delayed", 0, ""},
		"nobody asks for others":  {func(w *world) { w.fail(2, time.Minute, w.push(1)); w.push(2) }, "no_workers", 0, ""},
		"leases ran out": {func(w *world) {
			lease := w.lease(w.push(1), "vm-7")
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				_, err := q.GiveBack(tx, lease, "")
				return err
			})
			waits(w)
			w.recent.Lost.Leases = 3
		}, "flows", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t, 0)
			c.of(w)
			got := w.says("q", nil)
			if got.Cause != c.cause || got.Failing != c.items || !strings.Contains(got.Text, c.says) {
				t.Errorf("the queue says %+v, expected %s of %d items, and %q", got, c.cause, c.items, c.says)
			}
			if c.items > 0 && (got.Reason != "smtp 550" || got.Next == "" || got.Item == "") {
				t.Errorf("the queue says %+v, expected why the last one failed, and what to do", got)
			}
			if c.cause == "failing" && (got.Holder != "vm-7" || got.MaxDeliveries != 16) {
				t.Errorf("the queue says %+v, expected the last failure", got)
			}
		})
	}
}

// Where something else keeps the items it is the cause, however many of the last attempts failed.
func TestFailuresAreNotWhy(t *testing.T) {
	t.Parallel()
	config := func(w *world, object string) {
		w.update(func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Configure(tx, []byte(object))
			return err
		})
	}
	for cause, of := range map[protocol.Cause]func(w *world){
		"empty": func(w *world) {
			config(w, `{"max_deliveries":8}`)
			w.fail(8, 0, w.push(1), w.push(2))
		},
		"paused": func(w *world) {
			w.fail(8, 0, w.push(1), w.push(2))
			w.update(func(tx kv.Tx, q fdbpq.Queue) error { return q.Pause(tx) })
		},
		"rate": func(w *world) {
			first, second := w.push(1), w.push(2)
			w.fail(7, 0, first, second)
			config(w, `{"rate":"2/1h"}`)
			w.fail(1, 0, first, second)
		},
		"blocked": func(w *world) {
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				_, err := q.Push(tx, fdbpq.NewItem{Key: "acme"}, fdbpq.NewItem{Key: "acme", Priority: 1, HasPriority: true})
				return err
			})
			config(w, `{"max_deliveries":100}`)
			w.fail(16, 0, w.first())
			config(w, `{"key_order":true}`)
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				_, err := q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
				return err
			})
		},
		"held": func(w *world) {
			w.fail(8, 0, w.push(1), w.push(2))
			w.update(func(tx kv.Tx, q fdbpq.Queue) error {
				links, band := link.New(w.Store), all
				if _, err := links.Set(tx, q, "hub", []byte(`{"to":"there"}`)); err != nil {
					return err
				}
				given, err := links.Give(tx, q, "hub", link.Ask{Taker: "there", Batch: "begin", Items: fdbpq.Selection{Limit: 2, MaxBytes: 1000, Band: &band}})
				if err == nil && len(given.Items) != 2 {
					err = fmt.Errorf("the link gives %d items", len(given.Items))
				}
				return err
			})
		},
	} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			w := begin(t, 0)
			of(w)
			if w.recent.Failures != 16 {
				t.Fatalf("%d attempts failed, expected 16", w.recent.Failures)
			}
			w.waiting = []fdbpq.Band{all}
			if got := w.says("q", nil); got.Cause != cause || got.Failing != 0 {
				t.Errorf("the queue says %+v, expected %s", got, cause)
			}
		})
	}
}

// Another bridge may know of an acknowledgement; what it knows of failures counts, too.
func TestFailingOfTwoBridges(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]protocol.Cause{
		`{"waiting":0,"bands":null}`: "failing", `{"waiting":0,"bands":null,"acked":1000}`: "delayed", `{"waiting":0,"bands":null,"acked":90000,"failures":7}`: "failing",
	} {
		w := begin(t, 1)
		w.fail(2, time.Minute, w.push(1))
		w.answers = []string{answer}
		if got := w.says("q", nil); got.Cause != want || w.questions != 1 {
			t.Errorf("the other bridge says %s: %+v, expected %s", answer, got, want)
		}
	}
}

// An item says of what it failed, and how often it is tried.
func TestFailuresOfAnItem(t *testing.T) {
	t.Parallel()
	w := begin(t, 0)
	id, other := w.push(1), w.push(2)
	w.fail(3, time.Minute, id)
	got := w.says("q", &id)
	const text = "The item is delayed: it becomes ready in 1m0s. It has failed 3 times, the last: smtp 550, held by vm-7; the next attempt is 4 of 16."
	if got.Cause != "delayed" || got.Text != text || got.Reason != "smtp 550" || got.Attempt != 4 || got.MaxDeliveries != 16 {
		t.Errorf("the item says %+v, expected %q", got, text)
	}
	if got := w.says("q", &other); strings.Contains(got.Text, "failed") || got.Attempt != 0 {
		t.Errorf("an item that never failed says %+v", got)
	}
}
