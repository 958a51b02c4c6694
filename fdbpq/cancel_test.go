package fdbpq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// cancel cancels an item.
func (f *fixture) cancel(queue string, id fdbpq.ID, c fdbpq.Cancellation) (done fdbpq.Cancelled) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		done, err = f.Queue(queue).Cancel(tx, id, c)
		return err
	})
	return done
}

// told is what the events of a withdrawal say, but for the end of the item.
func told(events []fdbpq.Event) (all []fdbpq.Event) {
	for _, e := range events {
		if e.Type != fdbpq.EventFinished {
			all = append(all, e)
		}
	}
	return all
}

// A cancelled item is gone, whatever its state was, and its result says that it was cancelled and why. The event names the lease that has
// ended. A second cancellation says how the item has ended.
func TestCancel(t *testing.T) {
	t.Parallel()
	states := map[string]func(f *fixture, id fdbpq.ID) (holder string, fence, deliveries int64){
		"ready": func(*fixture, fdbpq.ID) (string, int64, int64) { return "", 0, 0 },
		"delayed": func(f *fixture, id fdbpq.ID) (string, int64, int64) {
			_ = f.nack(*f.leaseOne("q", time.Minute).Lease, time.Hour)
			return "", 0, 1
		},
		"leased": func(f *fixture, id fdbpq.ID) (string, int64, int64) {
			f.leaseAs("q", "vm-7", time.Minute)
			return "vm-7", 1, 1
		},
		"leased by nobody": func(f *fixture, id fdbpq.ID) (string, int64, int64) {
			f.leaseOne("q", time.Minute)
			return "", 1, 1
		},
		"moved": func(f *fixture, id fdbpq.ID) (string, int64, int64) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, id, 7)
				return err
			})
			return "", 0, 0
		},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				id := f.asking("q", fdbpq.NewItem{Priority: 3, HasPriority: true})
				holder, fence, deliveries := state(f, id)
				priority := int64(3)
				if name == "moved" {
					priority = 7
				}
				done := f.cancel("q", id, fdbpq.Cancellation{Reason: "not wanted"})
				if !done.Found || done.Finish != fdbpq.FinishCancelled || !done.Finished.IsZero() || done.Priority != priority || done.Deliveries != deliveries {
					t.Errorf("cancelled: %+v", done)
				}
				want := fdbpq.Event{
					Type: fdbpq.EventCancelled, Queue: "q", ID: id, Priority: priority, Deliveries: deliveries, Reason: "not wanted", Holder: holder, Fence: fence,
				}
				if all := told(done.Events); len(all) != 1 || all[0] != want {
					t.Errorf("the events are %+v, expected %+v", all, want)
				}
				if f.get("q", id) != nil || f.counts("q").Results != 1 {
					t.Errorf("it is there: %+v, and %+v", f.get("q", id), f.counts("q"))
				}
				f.ended("q", id, fdbpq.Result{Finish: fdbpq.FinishCancelled, Kept: fdbpq.KeptWhole, Deliveries: deliveries, Reason: "not wanted"})
				f.pass(time.Second)
				again := f.cancel("q", id, fdbpq.Cancellation{Reason: "still not"})
				ended := f.Display(f.now()).Add(-time.Second)
				if !again.Found || again.Finish != fdbpq.FinishCancelled || !again.Finished.Equal(ended) ||
					again.Deliveries != deliveries || len(again.Events) > 0 {
					t.Errorf("once more, a second later: %+v, expected what ended at %s", again, ended)
				}
			})
		})
	}
}

// What has ended stays as it has ended. An unknown item, and one of which nothing is kept, are not there.
func TestCancelOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		asked := f.asking("q", fdbpq.NewItem{})
		f.ackWith(*f.leaseOne("q", time.Minute).Lease, []byte("done it"))
		done := f.cancel("q", asked, fdbpq.Cancellation{})
		if !done.Found || done.Finish != fdbpq.FinishDone || done.Finished.IsZero() || done.Deliveries != 1 || len(done.Events) > 0 {
			t.Errorf("of a done item: %+v", done)
		}
		f.ended("q", asked, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Deliveries: 1, Body: []byte("done it")})
		plain := f.pushed("q", 1, "asks for nothing")[0]
		if done := f.cancel("q", plain, fdbpq.Cancellation{Reason: "r"}); !done.Found {
			t.Errorf("of an item that asks for nothing: %+v", done)
		}
		for queue, id := range map[string]fdbpq.ID{"q": plain, "none": asked} {
			if done := f.cancel(queue, id, fdbpq.Cancellation{}); done.Found {
				t.Errorf("of an item that queue %s has not: %+v", queue, done)
			}
		}
		if n := f.counts("q"); n.Ready+n.Leased != 0 || n.Results != 1 {
			t.Errorf("at last there are %+v", n)
		}
	})
}

// A leased item is spared if the cancellation says so, and an item that a link holds always.
func TestCancelSpares(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		ids := f.pushed("q", 1, "leased", "waits")
		lease := f.leaseAs("q", "w", time.Minute).Lease
		err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Cancel(tx, ids[0], fdbpq.Cancellation{Spare: true})
			return err
		})
		if !errors.Is(err, fdbpq.ErrWorked) {
			t.Errorf("of a leased item: %v", err)
		}
		if done := f.cancel("q", ids[1], fdbpq.Cancellation{Spare: true}); !done.Found {
			t.Errorf("of one that waits: %+v", done)
		}
		if err := f.ack(*lease); err != nil {
			t.Errorf("the spared item: %v", err)
		}
		id := f.pushed("q", 1, "held")[0]
		_, of := f.holds("q", "link:hub", 1)
		defer f.dropped("q", of)
		for _, spare := range []bool{false, true} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Cancel(tx, id, fdbpq.Cancellation{Spare: spare})
				return err
			})
			if !errors.Is(err, fdbpq.ErrHeld) {
				t.Errorf("of a held item, spares: %t: %v", spare, err)
			}
		}
	})
}

// The holder of a cancelled item hears that from whatever it does with its lease, and why, where the queue keeps the result.
func TestHolderOfACancelledItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for name, c := range map[string]struct {
			item fdbpq.NewItem
			want string
		}{
			"kept":   {fdbpq.NewItem{ResultTTL: time.Minute}, "lease lost: cancelled: no \u2764 left"},
			"unkept": {fdbpq.NewItem{}, "lease lost: gone"},
		} {
			f.configure(name, `{"hand_over":"*"}`)
			id := f.push(name, c.item)[0].ID
			lease := f.leaseOne(name, time.Minute).Lease
			f.cancel(name, id, fdbpq.Cancellation{Reason: "no \u2764 left"})
			q := f.Queue(name)
			for what, do := range map[string]func(tx kv.Tx) (fdbpq.Settled, error){
				"ack":       func(tx kv.Tx) (fdbpq.Settled, error) { return q.Ack(tx, *lease) },
				"nack":      func(tx kv.Tx) (fdbpq.Settled, error) { return q.Nack(tx, *lease, fdbpq.Nack{}) },
				"extend":    func(tx kv.Tx) (fdbpq.Settled, error) { return q.Extend(tx, *lease, time.Minute) },
				"report":    func(tx kv.Tx) (fdbpq.Settled, error) { return q.Report(tx, *lease, time.Minute, "1/2") },
				"give back": func(tx kv.Tx) (fdbpq.Settled, error) { return q.GiveBack(tx, *lease, "") },
				"terminate": func(tx kv.Tx) (fdbpq.Settled, error) { return q.Terminate(tx, *lease, "") },
			} {
				if err := f.settle(do); err == nil || err.Error() != c.want {
					t.Errorf("%s, %s: %v, expected %q", name, what, err, c.want)
				}
			}
			f.update(func(tx kv.Tx) error {
				pushed, err := f.Queue("r").Push(tx, fdbpq.NewItem{HandOver: lease})
				if err == nil && (pushed[0].Err == nil || pushed[0].Err.Error() != c.want) {
					t.Errorf("%s, handed over: %v, expected %q", name, pushed[0].Err, c.want)
				}
				return err
			})
		}
	})
}

// Whoever removes or revokes names the lease that has ended, alone and in bulk; an item that nobody has, and one whose holder has no name,
// are removed without an event.
func TestWithdrawnLeasesAreNamed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		remove := func(id fdbpq.ID) (events []fdbpq.Event) {
			f.update(func(tx kv.Tx) error {
				removed, err := f.Queue("q").Remove(tx, id)
				events = removed.Events
				return err
			})
			return events
		}
		bulk := func(verb fdbpq.BulkVerb) func(fdbpq.ID) []fdbpq.Event {
			return func(fdbpq.ID) []fdbpq.Event {
				return f.bulk("q", fdbpq.Bulk{Verb: verb, Where: fdbpq.Where{State: fdbpq.StateLeased}, Limit: 10}).Events
			}
		}
		for name, c := range map[string]struct {
			do   func(fdbpq.ID) []fdbpq.Event
			kind fdbpq.EventType
		}{
			"remove":      {remove, fdbpq.EventRemoved},
			"bulk remove": {bulk(fdbpq.BulkRemove), fdbpq.EventRemoved},
			"revoke":      {func(id fdbpq.ID) []fdbpq.Event { return f.revoke(id, fdbpq.Revocation{}).Events }, fdbpq.EventRevoked},
			"bulk revoke": {bulk(fdbpq.BulkRevoke), fdbpq.EventRevoked},
		} {
			id := f.pushed("q", 1, name)[0]
			lease := f.leaseAs("q", "vm-7", time.Minute).Lease
			all := told(c.do(id))
			if len(all) != 1 || all[0].Type != c.kind || all[0].ID != id || all[0].Holder != "vm-7" || all[0].Fence != lease.Fence {
				t.Errorf("%s: %+v, expected %s of the lease with fence %d", name, all, c.kind, lease.Fence)
			}
			f.purge("q")
		}
		waits, nobody := f.pushed("q", 2, "waits")[0], f.pushed("q", 1, "nobody's")[0]
		f.leaseOne("q", time.Minute)
		for _, id := range []fdbpq.ID{waits, nobody} {
			if all := told(remove(id)); len(all) > 0 {
				t.Errorf("of an item without a holder: %+v", all)
			}
		}
	})
}

// Reasons count as what results take, a kilobyte at most, and a full store keeps none.
func TestReasonsOfCancellations(t *testing.T) {
	t.Parallel()
	f := fullStore(t)
	long, full := f.asking("q", fdbpq.NewItem{}), f.asking("q", fdbpq.NewItem{})
	f.cancel("q", long, fdbpq.Cancellation{Reason: strings.Repeat("r", 2000)})
	f.ended("q", long, fdbpq.Result{Finish: fdbpq.FinishCancelled, Kept: fdbpq.KeptWhole, Reason: strings.Repeat("r", 1024)})
	if n := f.counts("q").ResultBytes; n != fdbpq.KeptBytes+1024 {
		t.Errorf("results take %d bytes", n)
	}
	f.why = errors.New("no room")
	done := f.cancel("q", full, fdbpq.Cancellation{Reason: "r"})
	if all := told(done.Events); len(all) != 1 || all[0].Reason != "r" {
		t.Errorf("the holder of an item in a full store hears %+v", all)
	}
	f.ended("q", full, fdbpq.Result{Finish: fdbpq.FinishCancelled, Kept: fdbpq.KeptWhole})
}
