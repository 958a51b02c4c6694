package fdbpq_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// linked are two stores with a link from a queue of the one to a queue of the other.
type linked struct {
	testing.TB
	giver, taker *fixture
}

const edgeSource = `{"remote":"edge","queue":"edge7.orders","link":"hub","batch":3}`

func eachLink(t *testing.T, test func(l *linked)) {
	t.Parallel()
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			side := func() *fixture {
				place := engine.place(t)
				return openFixture(t, func() kv.DB {
					db, err := place()
					if err != nil {
						t.Fatal(err)
					}
					return db
				})
			}
			l := &linked{t, side(), side()}
			l.link("hub", fmt.Sprintf(`{"to":%q}`, l.taker.ID()))
			l.taker.source("jobs", "edge", edgeSource)
			test(l)
		})
	}
}

// An item that a link gives back is as it was before, and one that the other store has taken begins anew.
func TestLinkAndEndings(t *testing.T) {
	eachLink(t, func(l *linked) {
		id := l.giver.pushed("orders", 0, "x")[0]
		if err := l.giver.nack(*l.giver.leaseOne("orders", time.Minute).Lease, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.giver.giveBack(*l.giver.leaseOne("orders", time.Minute).Lease, ""); err != nil {
			t.Fatal(err)
		}
		as := func(deliveries int64, want fdbpq.Endings, item *fdbpq.StoredItem) {
			l.Helper()
			if item.Deliveries != deliveries || item.Endings != want {
				l.Errorf("%d deliveries, %+v: expected %d, %+v", item.Deliveries, item.Endings, deliveries, want)
			}
		}
		l.heldOne()
		as(3, fdbpq.Endings{Failures: 1, Returns: 1}, l.giver.get("orders", id))
		l.giver.update(func(tx kv.Tx) error {
			_, _, err := link.New(l.giver.Store).Delete(tx, l.giver.Queue("orders"), "hub", true)
			return err
		})
		as(2, fdbpq.Endings{Failures: 1, Returns: 1}, l.giver.get("orders", id))
		l.link("hub", fmt.Sprintf(`{"to":%q}`, l.taker.ID()))
		l.moves()
		l.giver.configure("orders", `{"dead_letter_expired":true}`)
		l.giver.push("orders", fdbpq.NewItem{TTL: time.Minute})
		l.heldOne()
		l.giver.pass(time.Hour)
		l.giver.update(func(tx kv.Tx) error {
			_, events, err := link.New(l.giver.Store).Delete(tx, l.giver.Queue("orders"), "hub", true)
			if err == nil && (len(events) != 1 || events[0].Type != fdbpq.EventDead || events[0].Endings != (fdbpq.Endings{})) {
				l.Errorf("events %+v, expected that it is dead of its age, and that nothing ended otherwise", events)
			}
			return err
		})
		as(0, fdbpq.Endings{}, &fdbpq.StoredItem{Item: l.taker.pop("jobs", fdbpq.Min, 1).Items[0]})
	})
}

func (l *linked) link(name, object string) (made link.Link) {
	l.Helper()
	l.giver.update(func(tx kv.Tx) (err error) {
		made, err = link.New(l.giver.Store).Set(tx, l.giver.Queue("orders"), name, []byte(object))
		return err
	})
	return made
}

func (l *linked) shown() (found link.Link) {
	l.Helper()
	l.giver.view(func(r kv.Reader) (err error) {
		found, err = link.New(l.giver.Store).Get(r, l.giver.Queue("orders"), "hub")
		return err
	})
	return found
}

// holds checks how many items the links of the giver hold together.
func (l *linked) holds(want int64) {
	l.Helper()
	l.giver.view(func(r kv.Reader) error {
		held, err := link.New(l.giver.Store).Held(r, l.giver.Queue("orders"))
		if held.Items != want {
			l.Errorf("%d items are held, expected %d", held.Items, want)
		}
		return err
	})
}

// asks is what the taker asks for now.
func (l *linked) asks() (source.Source, link.Ask) {
	l.Helper()
	s := l.taker.found("jobs", "edge")
	p := s.Position
	return s, link.Ask{
		Taker: l.taker.ID(), Done: int64(p.Seq), Batch: p.Batch, Accept: p.Accepts(), Left: p.LeavesOf(),
		Items: fdbpq.Selection{Limit: s.Config.Batch},
	}
}

// gives is the answer of the giver.
func (l *linked) gives(ask link.Ask) (given link.Given) {
	l.Helper()
	l.giver.update(func(tx kv.Tx) (err error) {
		given, err = link.New(l.giver.Store).Give(tx, l.giver.Queue("orders"), "hub", ask)
		return err
	})
	return given
}

// refuses is gives that has to fail.
func (l *linked) refuses(ask link.Ask, want link.Refusal) {
	l.Helper()
	err := l.giver.fails(func(tx kv.Tx) error {
		_, err := link.New(l.giver.Store).Give(tx, l.giver.Queue("orders"), "hub", ask)
		return err
	})
	var refused *link.Error
	if !errors.As(err, &refused) || refused.Refusal != want {
		l.Fatalf("the giver says %v, expected %s", err, want)
	}
}

// takes commits an answer at the taker, as its runner does.
func (l *linked) takes(s source.Source, given link.Given) (fed source.Fed, err error) {
	l.Helper()
	if s.Position.Accepts() {
		to := s.Position
		to.Seq, to.Batch, to.From = uint64(given.Number-1), given.Before, ""
		l.taker.moveSource(s, to)
		s.Position = to
	}
	var items []source.Message
	for _, item := range given.Items {
		m := source.Message{Item: fdbpq.NewItem{Payload: item.Payload, Priority: item.Priority, HasPriority: true, Key: item.Key}}
		if bytes.HasPrefix(item.Payload, []byte("large")) {
			m.Large = errors.New("too large")
		}
		items = append(items, m)
	}
	items = s.Position.OfPart(source.BatchPart{ID: given.Batch, First: given.First, Total: given.Total}, time.Unix(1, 0), items)
	session := l.taker.Session()
	defer session.Release()
	err = session.Update(context.Background(), func(tx kv.Tx) (err error) {
		fed, err = l.taker.sources.Feed(tx, l.taker.Queue("jobs"), &s, items, nil)
		return err
	})
	return fed, err
}

// moves moves all that there is, and returns how many batches that took.
func (l *linked) moves() (batches int) {
	l.Helper()
	for ; ; batches++ {
		if batches > 1000 {
			l.Fatal("it does not end")
		}
		s, ask := l.asks()
		given := l.gives(ask)
		if given.Number == 0 {
			return batches
		}
		if _, err := l.takes(s, given); err != nil {
			l.Fatal(err)
		}
	}
}

// heldOne has one item held.
func (l *linked) heldOne() fdbpq.ID {
	l.Helper()
	_, ask := l.asks()
	ask.Items.Limit = 1
	given := l.gives(ask)
	if len(given.Items) != 1 {
		l.Fatalf("given: %+v", given)
	}
	return given.Items[0].ID
}

// Items come in their order, each once, with what they are.
func TestLinkMovesItems(t *testing.T) {
	eachLink(t, func(l *linked) {
		for i := range 8 {
			l.giver.push("orders", fdbpq.NewItem{Payload: fmt.Append(nil, i), Priority: int64(i % 2), HasPriority: true, Unique: fmt.Sprint("u", i)})
		}
		if n := l.moves(); n != 3 {
			l.Errorf("%d batches, expected 3", n)
		}
		l.taker.expectPayloads("jobs", "0", "2", "4", "6", "1", "3", "5", "7")
		if c := l.giver.counts("orders"); c.Length() != 0 {
			l.Errorf("the giver has %+v", c)
		}
		if shown := l.shown(); shown.Batch != 3 || shown.Given != 8 || shown.Held != 0 {
			l.Errorf("shown: %+v", shown)
		}
	})
}

// A batch that is out comes in parts to a taker that has room for less, each item once; who does not know parts gets it whole.
func TestLinkGivesParts(t *testing.T) {
	eachLink(t, func(l *linked) {
		for i := range 5 {
			l.giver.push("orders", fdbpq.NewItem{Payload: fmt.Append(nil, i, strings.Repeat("x", 1000))})
		}
		l.taker.source("jobs", "edge", `{"batch":5}`)
		_, whole := l.asks()
		if given := l.gives(whole); len(given.Items) != 5 || given.Total != 5 {
			l.Fatalf("given: %+v", given)
		}
		narrow := func() (source.Source, link.Given) {
			s, ask := l.asks()
			ask.Parts, ask.Next, ask.Part = true, s.Position.Next, int(s.Position.Part)
			ask.Items.Room = 2500
			return s, l.gives(ask)
		}
		for i, want := range []int{2, 2, 1} {
			s, given := narrow()
			if given.First != 2*i || len(given.Items) != want || given.Total != 5 || given.Number != 1 {
				l.Errorf("part %d: %d items from %d of %d", i, len(given.Items), given.First, given.Total)
			}
			if i == 1 {
				if again := l.gives(whole); len(again.Items) != 5 || again.First != 0 {
					l.Errorf("whole: %d items from %d", len(again.Items), again.First)
				}
			}
			if _, err := l.takes(s, given); err != nil {
				l.Fatal(err)
			}
			if _, err := l.takes(s, given); !errors.Is(err, source.ErrMoved) {
				l.Errorf("the part again: %v", err)
			}
		}
		if n := l.moves(); n != 0 {
			l.Errorf("%d batches more", n)
		}
		if got := len(l.taker.payloads("jobs")); got != 5 {
			l.Errorf("%d items came", got)
		}

		// A purge ends what was not taken.
		for range 5 {
			l.giver.push("orders", fdbpq.NewItem{Payload: make([]byte, 1000)})
		}
		_, ask := l.asks()
		l.gives(ask)
		s, given := narrow()
		if _, err := l.takes(s, given); err != nil {
			l.Fatal(err)
		}
		l.giver.update(func(tx kv.Tx) error { _, err := l.giver.Queue("orders").Purge(tx); return err })
		if s, given = narrow(); len(given.Items) != 0 || given.Total != 0 {
			l.Errorf("after a purge: %+v", given)
		}
		if fed, err := l.takes(s, given); err != nil || fed.Position.Seq != 2 {
			l.Errorf("after a purge: %+v, %v", fed, err)
		}
	})
}

// An item that the taker can keep neither as an item nor as a dead letter, and that a person passes over, stays with the giver: as a dead letter, or at
// its place if it can be none. Whatever else the batch has moves, and no answer that is lost changes that.
func TestLinkLeavesWhatFitsNowhere(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 0, "a", "large 1", "large 2", "b", "large 3", "large 4", "large 5", "c")
		id := l.giver.pushed("elsewhere", 9, "alive")[0]
		l.giver.imports("orders", fdbpq.Import{ID: id, Priority: 9, Payload: []byte("large and dead"), Dead: &fdbpq.DeadLetter{Reason: "too old", Origin: "elsewhere"}})
		l.taker.source("jobs", "edge", `{"batch":4}`)
		var dead []string
		left, stops := 0, 0
		for {
			s, ask := l.asks()
			if s.Position.Stop.Reason != "" {
				if stops++; stops > 6 {
					break // the one that cannot be a dead letter comes again
				}
				l.taker.update(func(tx kv.Tx) error {
					_, err := l.taker.sources.Resume(tx, l.taker.Queue("jobs"), "edge", source.Resume{Skip: true})
					return err
				})
				continue
			}
			given := l.gives(ask)
			left += given.Left
			for _, e := range given.Events {
				if e.Type == fdbpq.EventDead {
					dead = append(dead, e.Reason)
				}
			}
			if again := l.gives(ask); again.Number != given.Number || again.Left != 0 {
				l.Fatalf("when it is asked again, the giver has %+v, and had %+v", again, given)
			}
			if given.Number == 0 {
				l.Fatalf("what cannot be a dead letter is gone: %+v", given)
			}
			if _, err := l.takes(s, given); err != nil {
				l.Fatal(err)
			}
		}
		l.taker.expectPayloads("jobs", "a", "b", "c")
		l.giver.expectPayloads("orders-dead", "large 1", "large 2", "large 3", "large 4", "large 5")
		if left != 6 || len(dead) != 5 || !strings.HasPrefix(dead[0], "link hub: ") {
			l.Errorf("%d were left, and of dead letters %q tell", left, dead)
		}
		if n := l.giver.counts("orders").Length(); n != 1 || l.shown().Given != 3 || l.shown().Held != 1 {
			l.Errorf("the giver has %d items, and %+v", n, l.shown())
		}
	})
}

// A batch that was not confirmed is answered again as it was, whatever came meanwhile; the one who
// asks late gets it, too, and commits nothing.
func TestLinkAnswersAgain(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a", "b")
		zombie, ask := l.asks()
		first := l.gives(ask)
		if rows := l.giver.rows("z"); len(rows) != 0 {
			l.Errorf("a hold has timers: %q", rows)
		}
		another := ask
		another.Batch = "another"
		l.refuses(another, link.TakerBehind)
		l.giver.pushed("orders", 1, "urgent")
		again := l.gives(ask)
		if again.Number != 1 || again.Batch != first.Batch || !again.Repeated || !slices.Equal(payloads(again.Items), []string{"a", "b"}) {
			l.Errorf("again: %+v", again)
		}
		if _, err := l.takes(zombie, again); err != nil {
			l.Fatal(err)
		}
		if _, err := l.takes(zombie, first); !errors.Is(err, source.ErrMoved) {
			l.Errorf("a batch was taken twice: %v", err)
		}
		s, next := l.asks()
		second := l.gives(next)
		if second.Number != 2 || second.Before != first.Batch || second.Ended != 2 {
			l.Errorf("second: %+v", second)
		}
		l.refuses(ask, link.TakerBehind) // by a taker that was stopped meanwhile
		if _, err := l.takes(s, second); err != nil {
			l.Fatal(err)
		}
		l.taker.expectPayloads("jobs", "urgent", "a", "b")
		wrong := next
		wrong.Taker = "another"
		l.refuses(wrong, link.Forbidden)
	})
}

// What a full queue has no room for comes with the same batch.
func TestLinkToAFullQueue(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.taker.configure("jobs", `{"max_length":2}`)
		l.giver.pushed("orders", 5, "a", "b", "c", "d")
		s, ask := l.asks()
		fed, err := l.takes(s, l.gives(ask))
		if err != nil || fed.Done != 2 || !errors.Is(fed.Blocked, fdbpq.ErrFull) || fed.Position.Part != 2 || fed.Position.Seq != 0 {
			l.Fatalf("fed: %+v, %v", fed, err)
		}
		l.taker.expectPayloads("jobs", "a", "b")
		if n := l.moves(); n != 2 {
			l.Errorf("%d batches", n)
		}
		l.taker.expectPayloads("jobs", "c", "d")
	})
}

// A held item is leased for all purposes, and nobody ends that but its link.
func TestHeldItems(t *testing.T) {
	eachLink(t, func(l *linked) {
		g := l.giver
		g.configure("orders", `{"max_length":2,"key_order":true}`)
		push := func(payload string, item fdbpq.NewItem) fdbpq.Pushed {
			item.Payload = []byte(payload)
			return g.push("orders", item)[0]
		}
		push("a", fdbpq.NewItem{Key: "k", Unique: "u", TTL: time.Minute})
		l.holds(0)
		id := l.heldOne()
		l.holds(1)
		push("b", fdbpq.NewItem{Key: "k"})
		if p := push("c", fdbpq.NewItem{}); !errors.Is(p.Err, fdbpq.ErrFull) {
			l.Errorf("max_length does not count a held item: %+v", p)
		}
		if p := push("d", fdbpq.NewItem{Unique: "u"}); !p.Duplicate || p.ID != id {
			l.Errorf("a held item has lost its unique value: %+v", p)
		}
		if p := push("e", fdbpq.NewItem{Unique: "u", OnConflict: fdbpq.ConflictReplace}); !errors.Is(p.Err, fdbpq.ErrLeased) {
			l.Errorf("a held item was replaced: %+v", p)
		}
		if popped := g.lease("orders", fdbpq.Min, 1, time.Hour); len(popped.Items) != 0 || popped.Reason != fdbpq.ReasonBlocked {
			l.Errorf("the next item of a key whose first one is held: %+v", popped)
		}
		g.pass(400 * 24 * time.Hour)
		if events := g.sweep(); len(events) != 0 {
			l.Errorf("events after a year: %+v", events)
		}
		if held := g.get("orders", id); held == nil || !held.Held || held.State != fdbpq.StateLeased || held.Holder != "link:hub" || held.Due != 0 {
			l.Errorf("held: %+v", held)
		}
		g.view(func(r kv.Reader) error {
			oldest, err := g.Queue("orders").OldestLease(r, 10)
			if err != nil || oldest.Age != 0 {
				l.Errorf("a held item is an old lease: %+v, %v", oldest, err)
			}
			return nil
		})
		for name, change := range map[string]func(kv.Tx) error{
			"revoke":  func(tx kv.Tx) error { _, err := g.Queue("orders").Revoke(tx, id, fdbpq.Revocation{}); return err },
			"remove":  func(tx kv.Tx) error { _, err := g.Queue("orders").Remove(tx, id); return err },
			"move":    func(tx kv.Tx) error { _, err := g.Queue("orders").Move(tx, id, 7); return err },
			"requeue": func(tx kv.Tx) error { _, err := g.Queue("orders").Requeue(tx, id, ""); return err },
			"delete": func(tx kv.Tx) error {
				_, _, err := link.New(g.Store).Delete(tx, g.Queue("orders"), "hub", false)
				return err
			},
		} {
			if err := g.fails(change); !errors.Is(err, fdbpq.ErrHeld) {
				l.Errorf("%s: %v", name, err)
			}
		}
		for _, verb := range []fdbpq.BulkVerb{fdbpq.BulkRemove, fdbpq.BulkRevoke} {
			g.update(func(tx kv.Tx) error {
				done, err := g.Queue("orders").Bulk(tx, fdbpq.Bulk{Verb: verb, Where: fdbpq.Where{State: fdbpq.StateLeased}, Limit: 10})
				if done.Done != 0 {
					l.Errorf("a bulk operation has changed a held item")
				}
				return err
			})
		}
		l.moves()
		l.holds(0)
		l.taker.expectPayloads("jobs", "a", "b")
	})
}

// A link that is deleted by force gives its items back, uncounted, where they were.
func TestLinkIsDeletedByForce(t *testing.T) {
	eachLink(t, func(l *linked) {
		g := l.giver
		g.configure("orders", `{"max_deliveries":1}`)
		g.pushed("orders", 5, "a", "b")
		g.push("orders", fdbpq.NewItem{Payload: []byte("late"), TTL: time.Minute, Priority: 5, HasPriority: true})
		_, ask := l.asks()
		l.gives(ask)
		l.link("other", `{"to":"abc"}`)
		g.pushed("orders", 6, "x")
		g.update(func(tx kv.Tx) error {
			_, err := link.New(g.Store).Give(tx, g.Queue("orders"), "other", link.Ask{Taker: "abc", Items: fdbpq.Selection{Limit: 1}})
			return err
		})
		l.holds(4)
		g.pass(time.Hour)
		var back int
		g.update(func(tx kv.Tx) (err error) {
			var events []fdbpq.Event
			back, events, err = link.New(g.Store).Delete(tx, g.Queue("orders"), "hub", true)
			if len(events) != 1 || events[0].Type != fdbpq.EventExpired {
				l.Errorf("events: %+v", events)
			}
			return err
		})
		if back != 3 {
			l.Errorf("%d items came back", back)
		}
		l.holds(1)
		item := g.leaseOne("orders", time.Minute)
		if string(item.Payload) != "a" || item.Deliveries != 1 {
			l.Errorf("back: %+v", item)
		}
		if err := g.ack(*item.Lease); err != nil {
			l.Fatal(err)
		}
		err := g.fails(func(tx kv.Tx) error { _, err := link.New(g.Store).Give(tx, g.Queue("orders"), "hub", ask); return err })
		if !errors.Is(err, link.ErrNone) {
			l.Errorf("a deleted link: %v", err)
		}
		g.expectPayloads("orders", "b")
	})
}

// After a purge the batch that is out is empty, and counts; a queue that was deleted and made again has no link.
func TestLinkOfAPurgedQueue(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a", "b")
		_, ask := l.asks()
		first := l.gives(ask)
		l.giver.purge("orders")
		l.holds(0)
		l.giver.pushed("orders", 5, "c")
		s, ask := l.asks()
		again := l.gives(ask)
		if again.Number != 1 || again.Batch != first.Batch || len(again.Items) != 0 {
			l.Errorf("again: %+v", again)
		}
		if _, err := l.takes(s, again); err != nil {
			l.Fatal(err)
		}
		l.moves()
		l.taker.expectPayloads("jobs", "c")
		_, ask = l.asks()
		l.giver.delete("orders")
		l.giver.pushed("orders", 5, "d")
		if err := l.giver.fails(func(tx kv.Tx) error {
			_, err := link.New(l.giver.Store).Give(tx, l.giver.Queue("orders"), "hub", ask)
			return err
		}); !errors.Is(err, link.ErrNone) {
			l.Errorf("a link of an earlier queue: %v", err)
		}
		l.link("hub", fmt.Sprintf(`{"to":%q}`, l.taker.ID()))
		l.refuses(ask, link.GiverBehind)
	})
}

func TestLinkPauses(t *testing.T) {
	eachLink(t, func(l *linked) {
		pause := func(paused bool) {
			l.giver.update(func(tx kv.Tx) error {
				_, err := link.New(l.giver.Store).Pause(tx, l.giver.Queue("orders"), "hub", paused)
				return err
			})
		}
		l.giver.pushed("orders", 5, "a", "b")
		id := l.heldOne()
		pause(true)
		if n := l.moves(); n != 1 || l.giver.get("orders", id) != nil { // what is out stays out, and ends
			l.Errorf("%d batches", n)
		}
		_, ask := l.asks()
		if given := l.gives(ask); given.Reason != fdbpq.ReasonPaused {
			l.Errorf("given: %+v", given)
		}
		pause(false)
		l.moves()
		l.taker.expectPayloads("jobs", "a", "b")
	})
}

// restores returns what puts a store back to what it is now, but for its clock and its sessions.
func (f *fixture) restores() func() {
	f.Helper()
	all := func(r kv.Reader) (pairs []kv.Pair, err error) {
		pairs, err = r.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1 << 20})
		return slices.DeleteFunc(pairs, func(p kv.Pair) bool {
			return slices.ContainsFunc([]string{"\x02n\x00", "\x02t\x00", "\x02w\x00"}, func(space string) bool { return strings.HasPrefix(string(p.Key), space) })
		}), err
	}
	var backup []kv.Pair
	f.view(func(r kv.Reader) (err error) {
		backup, err = all(r)
		return err
	})
	return func() {
		f.Helper()
		f.update(func(tx kv.Tx) error {
			now, err := all(tx)
			for _, p := range now {
				tx.Clear(p.Key)
			}
			for _, p := range backup {
				tx.Set(p.Key, p.Value)
			}
			return err
		})
	}
}

// stops has the source stop, as its runner does when the giver refuses, and a person accept.
func (l *linked) accepts(reason source.StopReason) {
	l.Helper()
	s := l.taker.found("jobs", "edge")
	to := s.Position
	to.Stop = source.Stop{Reason: reason}
	l.taker.moveSource(s, to)
	l.taker.resumeSource("jobs", "edge", source.Resume{Accept: true})
}

// A giver that was restored gives again what it had given since, when a person accepts that; with its batch in the
// same state, and when it has gone on with other items under the same number.
func TestLinkOfARestoredGiver(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a", "b", "c", "d")
		l.moves()
		restore := l.giver.restores()
		l.giver.pushed("orders", 5, "e")
		l.moves()
		restore()
		l.giver.pushed("orders", 5, "f")
		_, ask := l.asks()
		l.refuses(ask, link.GiverBehind)
		l.accepts(source.StopGiverBehind)
		if n := l.moves(); n != 1 {
			l.Errorf("%d batches", n)
		}
		l.taker.expectPayloads("jobs", "a", "b", "c", "d", "e", "f")

		restore = l.giver.restores()
		l.giver.pushed("orders", 5, "g")
		l.moves()
		s, ask := l.asks()
		restore()
		other := ask
		other.Done, other.Batch = ask.Done-1, l.before(s)
		l.giver.pushed("orders", 5, "h")
		if given := l.gives(other); given.Number != ask.Done {
			l.Fatalf("given: %+v", given)
		}
		l.refuses(ask, link.GiverBehind) // the same number, and another batch
		l.accepts(source.StopGiverBehind)
		l.moves()
		l.taker.expectPayloads("jobs", "g", "h")
	})
}

// before is the id of the last batch that the restored giver knows.
func (l *linked) before(source.Source) string {
	rows := l.giver.rows("lo")
	for _, word := range strings.FieldsFunc(string(rows[0].Value), func(c rune) bool { return (c < '0' || c > '9') && (c < 'A' || c > 'Z') }) {
		if len(word) == 26 {
			return word
		}
	}
	l.Fatalf("no id in %q", rows[0].Value)
	return ""
}

// A taker that was restored lacks what it had taken since. The batch that is out comes again.
func TestLinkOfARestoredTaker(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a")
		l.moves()
		restore := l.taker.restores()
		l.giver.pushed("orders", 5, "b", "c", "d", "e")
		s, ask := l.asks()
		if _, err := l.takes(s, l.gives(ask)); err != nil {
			l.Fatal(err)
		}
		restore() // the batch was not confirmed: it comes again
		l.moves()
		restore()
		_, ask = l.asks()
		l.refuses(ask, link.TakerBehind)
		l.giver.pushed("orders", 5, "f")
		l.accepts(source.StopTakerBehind)
		l.moves()
		l.taker.expectPayloads("jobs", "a", "f")
	})
}

// Of a batch that the taker has in part, another one of the same number is not the rest.
func TestLinkOfAGiverRestoredWithinABatch(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.taker.configure("jobs", `{"max_length":1}`)
		restore := l.giver.restores()
		l.giver.pushed("orders", 5, "a", "b")
		s, ask := l.asks()
		if fed, err := l.takes(s, l.gives(ask)); err != nil || fed.Position.Part != 1 {
			l.Fatalf("fed: %+v, %v", fed, err)
		}
		restore()
		l.giver.pushed("orders", 5, "c", "d")
		s, ask = l.asks()
		given := l.gives(ask)
		if given.Batch == s.Position.Next {
			l.Error("two batches have one id")
		}
		if all := s.Position.OfBatch(given.Batch, time.Unix(1, 0), make([]source.Message, 2)); len(all) != 3 {
			l.Errorf("%d of another batch are the rest", len(all))
		}
	})
}

func TestLinkFields(t *testing.T) {
	eachLink(t, func(l *linked) {
		for _, object := range []string{`{}`, `{"to":""}`, `{"to":"a b"}`, `{"to":7}`, `{"too":"x"}`, `{"to":null}`, fmt.Sprintf(`{"to":%q}`, l.giver.ID())} {
			err := l.giver.fails(func(tx kv.Tx) error {
				_, err := link.New(l.giver.Store).Set(tx, l.giver.Queue("orders"), "other", []byte(object))
				return err
			})
			if refused := (*link.Error)(nil); !errors.As(err, &refused) {
				l.Errorf("%s: %v", object, err)
			}
		}
		if err := l.giver.fails(func(tx kv.Tx) error {
			_, err := link.New(l.giver.Store).Set(tx, l.giver.Queue("orders"), "hub", []byte(`{"to":"x"}`))
			return err
		}); !strings.Contains(err.Error(), "cannot be changed") {
			l.Errorf("another taker: %v", err)
		}
		for _, object := range []string{
			`{"remote":"edge","queue":"edge7.orders"}`, `{"remote":"edge","link":"hub"}`, `{"queue":"edge7.orders","link":"hub"}`, `{"remote":"edge","queue":"orders","link":"hub"}`,
			`{"remote":"edge","queue":"edge7.*","link":"hub"}`, `{"remote":"edge","queue":"edge7..orders","link":"hub"}`, `{"remote":"edge","queue":"edge7.orders","link":"h b"}`,
			`{"remote":"edge","queue":"edge7.orders","link":"hub","stream":"S"}`, `{"remote":"edge","queue":"edge7.orders","link":"hub","mode":"take"}`, `{"remote":"edge","queue":"edge7.orders","link":"hub","map":{"key":"k"}}`,
		} {
			err := l.taker.fails(func(tx kv.Tx) error {
				_, err := l.taker.sources.Set(tx, l.taker.Queue("jobs"), "other", []byte(object), allowed)
				return err
			})
			if refused := (*source.Error)(nil); !errors.As(err, &refused) {
				l.Errorf("%s: %v", object, err)
			}
		}
		for _, step := range []struct {
			object string
			batch  int
		}{{`{"remote":"edge","queue":"edge7.orders","link":"another"}`, source.MaxBatch}, {`{"batch":7}`, 7}, {`{"link":"another"}`, 7}} {
			if batch := l.taker.source("jobs", "another", step.object).Config.Batch; batch != step.batch {
				l.Errorf("with %s a batch has %d items, expected %d", step.object, batch, step.batch)
			}
		}
		l.giver.update(func(tx kv.Tx) error {
			for i := range link.MaxCount - 1 {
				if _, err := link.New(l.giver.Store).Set(tx, l.giver.Queue("orders"), fmt.Sprintf("l%03d", i), []byte(`{"to":"x"}`)); err != nil {
					return err
				}
			}
			return nil
		})
		if err := l.giver.fails(func(tx kv.Tx) error {
			_, err := link.New(l.giver.Store).Set(tx, l.giver.Queue("orders"), "more", []byte(`{"to":"x"}`))
			return err
		}); !errors.Is(err, link.ErrTooMany) {
			l.Errorf("one link too many: %v", err)
		}
		l.giver.view(func(r kv.Reader) error {
			page, err := link.New(l.giver.Store).List(r, l.giver.Queue("orders"), "l096", 10)
			if err != nil || len(page) != 2 || page[0].Name != "l097" {
				l.Errorf("page: %+v, %v", page, err)
			}
			all, err := link.New(l.giver.Store).All(r)
			if err != nil || len(all) != link.MaxCount {
				l.Errorf("%d links in all, %v", len(all), err)
			}
			return nil
		})
	})
}

// Each item comes once and in order, whichever side crashes between any two steps, whatever answers are lost, late or asked for by
// a taker that was stopped. The model is a list: what was pushed, in its order.
func TestLinkUnderCrashes(t *testing.T) {
	eachLink(t, func(l *linked) {
		r := rand.New(rand.NewPCG(randomSeed(l), 0))
		type flight struct {
			s     source.Source
			given link.Given
		}
		var pushed, taken []string
		var asks []link.Ask // of takers that were stopped, perhaps
		var answers []flight
		pop := func() {
			taken = append(taken, payloads(l.taker.pop("jobs", fdbpq.Min, 100).Items)...)
		}
		l.taker.configure("jobs", `{"max_length":5}`)
		for range fewer(l, 1500) {
			switch r.IntN(10) {
			case 0, 1:
				text := fmt.Sprint(len(pushed))
				l.giver.pushed("orders", 0, text)
				pushed = append(pushed, text)
			case 2: // the giver crashes, and opens again
				l.giver.Store = l.giver.next(0).Store
			case 3:
				l.taker.Store = l.taker.next(0).Store
			case 4:
				pop()
			case 5: // a request that nobody waits for any more
				if len(asks) > 0 {
					ask := asks[r.IntN(len(asks))]
					session := l.giver.Session()
					_ = session.Update(context.Background(), func(tx kv.Tx) error {
						_, err := link.New(l.giver.Store).Give(tx, l.giver.Queue("orders"), "hub", ask)
						return err
					})
					session.Release()
				}
			case 6: // an answer that comes late
				if len(answers) > 0 {
					late := answers[r.IntN(len(answers))]
					if _, err := l.takes(late.s, late.given); err != nil && !errors.Is(err, source.ErrMoved) {
						l.Fatal(err)
					}
				}
			default:
				s, ask := l.asks()
				ask.Items.Limit = 1 + r.IntN(4)
				given := l.gives(ask)
				if asks = append(asks, ask); given.Number == 0 {
					continue
				}
				answers = append(answers, flight{s, given})
				if r.IntN(3) > 0 {
					if _, err := l.takes(s, given); err != nil {
						l.Fatal(err)
					}
				}
			}
		}
		for len(taken) < len(pushed) || l.giver.counts("orders").Length() > 0 {
			had, length := len(taken), l.giver.counts("orders").Length()
			s, ask := l.asks()
			if given := l.gives(ask); given.Number > 0 {
				if _, err := l.takes(s, given); err != nil {
					l.Fatal(err)
				}
			}
			s2, _ := l.asks()
			pop()
			if len(taken) == had && l.giver.counts("orders").Length() == length && s2.Position == s.Position {
				l.Fatalf("nothing moves: %d of %d taken", len(taken), len(pushed))
			}
		}
		if !slices.Equal(taken, pushed) {
			l.Errorf("taken %v\npushed %v", taken, pushed)
		}
	})
}

// A cursor is a text of the client's: one that says that the run begins after the end of time does not find held items.
func TestHeldItemsInABulkOperationOfAllTimes(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a")
		l.heldOne()
		var made []byte
		for _, n := range []int64{1, math.MaxInt64, math.MaxInt64, 0, 0} { // generation, highest count, begin
			made = tuple.AppendInt(made, n)
		}
		cursor, err := fdbpq.ParseBulkCursor(base64.RawURLEncoding.EncodeToString(made))
		if err != nil {
			l.Fatal(err)
		}
		for _, verb := range []fdbpq.BulkVerb{fdbpq.BulkRevoke, fdbpq.BulkMove, fdbpq.BulkRemove} {
			l.giver.update(func(tx kv.Tx) error {
				done, err := l.giver.Queue("orders").Bulk(tx, fdbpq.Bulk{Verb: verb, Where: fdbpq.Where{State: fdbpq.StateLeased}, Limit: 10, After: cursor, Priority: 1})
				if err == nil && (done.Looked != 1 || done.Done != 0) {
					l.Errorf("verb %d looked at %d items, changed %d", verb, done.Looked, done.Done)
				}
				return err
			})
		}
		l.moves()
		l.taker.expectPayloads("jobs", "a")
	})
}

// A lease of before, a pop that is repeated and an import of the item change nothing about a held item; nor does a push
// that evicts.
func TestHeldItemsMeetOldLeases(t *testing.T) {
	eachLink(t, func(l *linked) {
		g, orders := l.giver, l.giver.Queue("orders")
		id := g.pushed("orders", 5, "a")[0]
		again := fdbpq.Selection{Limit: 1, PopID: "p"}
		var leased fdbpq.Popped
		g.update(func(tx kv.Tx) (err error) {
			leased, err = orders.Lease(tx, again, time.Second)
			return err
		})
		g.pass(2 * time.Second)
		g.sweep()
		if held := l.heldOne(); held != id {
			l.Fatalf("held %s, expected %s", held, id)
		}
		old := *leased.Items[0].Lease
		for name, settle := range map[string]func(kv.Tx) (fdbpq.Settled, error){
			"ack":       func(tx kv.Tx) (fdbpq.Settled, error) { return orders.Ack(tx, old) },
			"nack":      func(tx kv.Tx) (fdbpq.Settled, error) { return orders.Nack(tx, old, fdbpq.Nack{}) },
			"extend":    func(tx kv.Tx) (fdbpq.Settled, error) { return orders.Extend(tx, old, time.Hour) },
			"return":    func(tx kv.Tx) (fdbpq.Settled, error) { return orders.Return(tx, old) },
			"terminate": func(tx kv.Tx) (fdbpq.Settled, error) { return orders.Terminate(tx, old, "") },
		} {
			if err := g.settle(settle); lost(err) != fdbpq.LostTaken {
				l.Errorf("%s by an old lease: %v", name, err)
			}
		}
		if err := g.fails(func(tx kv.Tx) error { _, err := orders.Lease(tx, again, time.Second); return err }); lost(err) != fdbpq.LostGone {
			l.Errorf("the pop repeated: %v", err)
		}
		if found := g.imports("orders", fdbpq.Import{ID: id, Priority: 1, Payload: []byte("b")})[0]; found.Found == nil || !found.Found.Held {
			l.Errorf("imported: %+v", found)
		}
		g.configure("orders", `{"max_length":1,"overflow":"evict"}`)
		g.push("orders", fdbpq.NewItem{Payload: []byte("c"), Priority: 1, HasPriority: true})
		if n := g.counts("orders"); n.Leased != 1 || n.Ready != 0 {
			l.Errorf("counts %+v", n)
		}
		l.moves()
		l.taker.expectPayloads("jobs", "a")
	})
}

// Two sources of one link would both take each item. The second one is refused, and one that was made again where the
// first one had taken something stops.
func TestLinkHasOneSource(t *testing.T) {
	eachLink(t, func(l *linked) {
		for _, queue := range []string{"jobs", "others"} {
			err := l.taker.fails(func(tx kv.Tx) error {
				_, err := l.taker.sources.Set(tx, l.taker.Queue(queue), "another", []byte(edgeSource), allowed)
				return err
			})
			if refused := (*source.Error)(nil); !errors.As(err, &refused) {
				l.Errorf("a second source of %s: %v", queue, err)
			}
		}
		l.taker.source("jobs", "edge", `{"batch":2}`)
		l.giver.pushed("orders", 5, "a", "b")
		s, ask := l.asks()
		if _, err := l.takes(s, l.gives(ask)); err != nil {
			l.Fatal(err)
		}
		l.taker.update(func(tx kv.Tx) error { return l.taker.sources.Delete(tx, l.taker.Queue("jobs"), "edge") })
		l.taker.source("jobs", "edge", edgeSource)
		_, ask = l.asks()
		l.refuses(ask, link.TakerBehind)
		l.accepts(source.StopTakerBehind) // a person has it come again
		l.giver.pushed("orders", 5, "c")
		l.moves()
		l.taker.expectPayloads("jobs", "a", "b", "a", "b", "c")
	})
}

// What identifies a taker and a batch is short.
func TestLinkAskIsChecked(t *testing.T) {
	eachLink(t, func(l *linked) {
		l.giver.pushed("orders", 5, "a")
		_, good := l.asks()
		long := strings.Repeat("x", 65)
		for _, change := range []func(*link.Ask){
			func(a *link.Ask) { a.Taker = long }, func(a *link.Ask) { a.Batch = long },
			func(a *link.Ask) { a.Batch = "a b" }, func(a *link.Ask) { a.Batch = "a\r\nb" },
		} {
			ask := good
			change(&ask)
			l.refuses(ask, link.Malformed)
		}
		l.moves()
		l.taker.expectPayloads("jobs", "a")
	})
}

// Both stores are restored, from backups of whichever moments. Backups of one moment go on. Otherwise the link stops, and a person has
// it go on: nothing is lost that the giver's backup has and the taker has not taken before its own, and only what
// was given behind the giver's backup comes twice.
func TestLinkOfRestoredStores(t *testing.T) {
	moments := []string{"nothing was given", "a batch is out", "it was taken", "it was confirmed", "more was given"}
	for giver := range moments {
		for taker := range moments {
			t.Run(moments[giver]+"/"+moments[taker], func(t *testing.T) {
				eachLink(t, func(l *linked) {
					l.giver.pushed("orders", 5, "a", "b", "c", "d", "e", "f", "g", "h")
					var back [2]func()
					var has, took []string
					left := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
					var taken []string
					moment := func(n int) {
						if n == giver {
							back[0], has = l.giver.restores(), slices.Clone(left)
						}
						if n == taker {
							back[1], took = l.taker.restores(), slices.Clone(taken)
						}
					}
					moment(0)
					s, ask := l.asks()
					given := l.gives(ask)
					moment(1)
					if _, err := l.takes(s, given); err != nil {
						l.Fatal(err)
					}
					taken = append(taken, "a", "b", "c")
					moment(2)
					s, ask = l.asks()
					given = l.gives(ask)
					left = left[3:]
					moment(3)
					if _, err := l.takes(s, given); err != nil {
						l.Fatal(err)
					}
					l.moves()
					taken, left = append(taken, "d", "e", "f", "g", "h"), nil
					moment(4)
					back[0]()
					back[1]()
					_, ask = l.asks()
					session := l.giver.Session()
					defer session.Release()
					err := session.Update(l.Context(), func(tx kv.Tx) error {
						_, err := link.New(l.giver.Store).Give(tx, l.giver.Queue("orders"), "hub", ask)
						return err
					})
					var refused *link.Error
					if errors.As(err, &refused) {
						l.accepts(source.StopReason(refused.Refusal))
					} else if err != nil {
						l.Fatal(err)
					}
					if alike := giver == taker; alike && err != nil {
						l.Errorf("backups of one moment: %v", err)
					}
					l.giver.pushed("orders", 6, "new")
					l.moves()
					got := payloads(l.taker.pop("jobs", fdbpq.Min, 100).Items)
					slices.Sort(got)
					want := append(slices.Clone(took), "new")
					for _, text := range has {
						if both := slices.Contains(took, text); !both || refused != nil { // a person has accepted that it comes again
							want = append(want, text)
						}
					}
					slices.Sort(want)
					if !slices.Equal(got, want) {
						l.Errorf("the taker has %q, expected %q (%v)", got, want, err)
					}
					if n := l.giver.counts("orders").Length(); n != 0 {
						l.Errorf("the giver has %d items", n)
					}
				})
			})
		}
	}
}

// For ten days neither side hears of the other one. A batch is out that the taker has, both have work, and items of the giver expire, are
// delayed and are done by others. Then each item that is left moves once. Meanwhile the giver's store has as many rows as its items
// ask for, whatever has passed through it.
func TestLinkAfterTenDays(t *testing.T) {
	eachLink(t, func(l *linked) {
		g := l.giver
		g.configure("orders", `{"key_limit":2}`)
		rows := func() (n int) {
			g.view(func(r kv.Reader) error {
				all, err := r.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1 << 20})
				n = len(all)
				return err
			})
			return n
		}
		pushed := 0
		push := func(item fdbpq.NewItem) string {
			pushed++
			item.Payload, item.Priority, item.HasPriority = fmt.Appendf(nil, "%05d", pushed), int64(pushed), true
			if p := g.push("orders", item)[0]; p.Err != nil {
				l.Fatal(p.Err)
			}
			return string(item.Payload)
		}
		before := rows()
		want := []string{push(fdbpq.NewItem{TTL: time.Hour, Key: "k", Unique: "held"}), push(fdbpq.NewItem{TTL: time.Hour, Key: "k"})}
		push(fdbpq.NewItem{TTL: time.Hour, Key: "k"}) // expires behind those of its key that are held
		s, ask := l.asks()
		given := l.gives(ask)
		if _, err := l.takes(s, given); err != nil || !slices.Equal(payloads(given.Items), want) {
			l.Fatalf("given: %+v, %v", given, err)
		}
		for range 10 * 24 / 4 {
			g.pass(4 * time.Hour)
			l.taker.pass(4 * time.Hour)
			push(fdbpq.NewItem{TTL: 30 * time.Minute})
			push(fdbpq.NewItem{Delay: 90 * time.Minute})
			push(fdbpq.NewItem{Key: fmt.Sprint("key ", pushed%7)})
			push(fdbpq.NewItem{Unique: "held"}) // is there
			push(fdbpq.NewItem{Unique: "again"})
			if err := g.ack(*g.leaseOne("orders", time.Minute).Lease); err != nil {
				l.Fatal(err)
			}
			l.taker.pushed("jobs", 0, "of the hub")
			l.taker.pop("jobs", fdbpq.Min, 1)
			g.sweep()
			l.taker.sweep()
			if n, has := rows(), g.counts("orders").Length(); n > before+40+8*int(has) {
				l.Fatalf("%d rows, and %d items; there were %d rows without items", n, has, before)
			}
		}
		g.pass(2 * time.Hour)
		g.sweep()
		left := int(g.counts("orders").Ready)
		g.view(func(r kv.Reader) error {
			page, err := g.Queue("orders").List(r, fdbpq.Listing{Limit: fdbpq.MaxBatch, Bodies: true})
			for _, item := range page.Items {
				want = append(want, string(item.Payload))
			}
			return err
		})
		if again := l.gives(ask); !again.Repeated || again.Batch != given.Batch || len(again.Items) != 2 || left < 50 || len(want) != left+2 {
			l.Fatalf("after ten days %d items are ready: %+v", left, again)
		}
		l.moves()
		l.taker.expectPayloads("jobs", want...)
		g.pass(time.Hour)
		g.sweep()
		g.collectGarbage()
		if n := rows(); n > before+40 {
			l.Errorf("%d rows are left, %d were there before", n, before)
		}
	})
}

// A tenant may have a tenth of the links of a store, and of its sources, so that others may have some.
func TestTenantsShareLinksAndSources(t *testing.T) {
	eachSource(t, func(f *fixture) {
		set := map[string]func(tx kv.Tx, queue, name string) error{
			"link": func(tx kv.Tx, queue, name string) error {
				_, err := link.New(f.Store).Set(tx, f.Queue(queue), name, []byte(`{"to":"x"}`))
				return err
			},
			"source": func(tx kv.Tx, queue, name string) error {
				_, err := f.sources.Set(tx, f.Queue(queue), name, []byte(ordersSource), allowed)
				return err
			},
		}
		for what, set := range set {
			add := func(queue string, from, to int) {
				f.update(func(tx kv.Tx) error {
					for i := from; i < to; i++ {
						if err := set(tx, queue, fmt.Sprint("n", i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			add("ACME.a", 0, 50)
			add("ACME.b-dead", 0, link.MaxStoreCount/10-50)
			for _, queue := range []string{"ACME.a", "ACME.c"} {
				if err := f.fails(func(tx kv.Tx) error { return set(tx, queue, "more") }); err == nil || !strings.Contains(err.Error(), "the tenant has 100, which is all it may have") {
					t.Errorf("one %s too many of %s: %v", what, queue, err)
				}
			}
			add("ACME.a", 49, 50) // which it has
			for _, other := range []string{"ACM.a", "ACME2.a", "ACME-2.a", "ACMF.a", "jobs", "ACME"} {
				add(other, 0, 1)
			}
		}
	})
}
