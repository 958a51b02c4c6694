package fdbpq_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

const ordersSource = `{"remote":"hub","stream":"ORDERS"}`

func allowed(source.Config) error { return nil }

// source makes or changes a source.
func (f *fixture) source(queue, name, object string) source.Source {
	f.Helper()
	var made source.Source
	f.update(func(tx kv.Tx) (err error) {
		made, err = f.sources.Set(tx, f.Queue(queue), name, []byte(object), allowed)
		return err
	})
	return made
}

// found shows a source.
func (f *fixture) found(queue, name string) (s source.Source) {
	f.Helper()
	f.view(func(r kv.Reader) (err error) {
		s, err = f.sources.Get(r, f.Queue(queue), name)
		return err
	})
	return s
}

// feed feeds a queue from where a source was found, and returns what was done.
func (f *fixture) feed(s source.Source, messages ...source.Message) (fed source.Fed) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		fed, err = f.sources.Feed(tx, f.Queue(s.Queue), &s, messages, nil)
		return err
	})
	return fed
}

// refeeds is feed that has to fail.
func (f *fixture) refeeds(s source.Source, want error, messages ...source.Message) {
	f.Helper()
	err := f.fails(func(tx kv.Tx) error {
		_, err := f.sources.Feed(tx, f.Queue(s.Queue), &s, messages, nil)
		return err
	})
	if !errors.Is(err, want) {
		f.Fatalf("feed: %v, expected %v", err, want)
	}
}

func message(seq uint64) source.Message {
	return source.Message{
		Mark: source.Mark{Seq: seq, Time: int64(seq), Subject: seq, Content: uint32(seq)},
		Item: fdbpq.NewItem{Payload: fmt.Append(nil, seq)},
	}
}

func messages(from, to uint64) (all []source.Message) {
	for seq := from; seq <= to; seq++ {
		all = append(all, message(seq))
	}
	return all
}

// payloads pops all items of a queue.
func (f *fixture) payloads(queue string) (all []string) {
	f.Helper()
	for {
		popped := f.pop(queue, fdbpq.Min, 100)
		for _, item := range popped.Items {
			all = append(all, string(item.Payload))
		}
		if len(popped.Items) == 0 {
			return all
		}
	}
}

func (f *fixture) expectPayloads(queue string, want ...string) {
	f.Helper()
	if got := f.payloads(queue); !slices.Equal(got, want) {
		f.Errorf("queue %s has %v, expected %v", queue, got, want)
	}
}

func eachSource(t *testing.T, test func(f *fixture)) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) { test(openFixture(t, open)) })
}

// Items and position commit together: who comes with an older position has pushed nothing.
func TestSourceMovesWithItsItems(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		fed := f.feed(s, messages(1, 3)...)
		if fed.Done != 3 || fed.Pushed != 3 || fed.Position.Seq != 3 || !fed.Position.Exact {
			t.Errorf("fed: %+v", fed)
		}
		f.refeeds(s, source.ErrMoved, messages(1, 3)...)
		s = f.found("jobs", "orders")
		if s.Position != fed.Position || s.Position.Delivered != 3 {
			t.Errorf("position is %+v, expected %+v", s.Position, fed.Position)
		}
		f.feed(s, messages(4, 5)...)
		f.expectPayloads("jobs", "1", "2", "3", "4", "5")
	})
}

// What is fed in a Work of the caller has its place among the pushes of it, and no more is in the queue than it may have.
func TestSourceFeedsWithinAWork(t *testing.T) {
	eachSource(t, func(f *fixture) {
		f.configure("jobs", `{"max_length":4}`)
		s := f.source("jobs", "orders", ordersSource)
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			q := w.Queue("jobs")
			if _, err := q.Push(tx, fdbpq.NewItem{Payload: []byte("before")}); err != nil {
				return err
			}
			fed, err := f.sources.Feed(tx, q, &s, messages(1, 2), nil)
			if err != nil {
				return err
			}
			if _, err := q.Push(tx, fdbpq.NewItem{Payload: []byte("between")}); err != nil {
				return err
			}
			s.Position = fed.Position
			if fed, err = f.sources.Feed(tx, q, &s, messages(3, 4), nil); fed.Done != 0 || !errors.Is(fed.Blocked, fdbpq.ErrFull) {
				t.Errorf("fed: %+v", fed)
			}
			return err
		})
		f.expectPayloads("jobs", "before", "1", "2", "between")
	})
}

// Two runners fetch the same messages: one of their transactions wins.
func TestSourceOfTwoRunnersIsPushedOnce(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		rival := false
		f.hook = func(at fault.Point) {
			if at == fault.BeforeCommit && !rival {
				rival = true
				other := &fixture{TB: f.TB, Store: f.Store, sources: f.sources}
				other.update(func(tx kv.Tx) error {
					_, err := other.sources.Feed(tx, other.Queue("jobs"), &s, messages(1, 2), nil)
					return err
				})
			}
		}
		f.refeeds(s, source.ErrMoved, messages(1, 3)...)
		f.hook = nil
		f.expectPayloads("jobs", "1", "2")
	})
}

// A change by an administrator counts for all that was not pushed yet.
func TestChangedSourceRefusesWhatWasFetchedBefore(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		f.source("jobs", "orders", `{"map":{"priority":{"header":"Prio","default":3}}}`)
		f.refeeds(s, source.ErrMoved, message(1))
		s = f.found("jobs", "orders")
		if v := s.Config.Map["priority"]; v.Header != "Prio" || v.Default != "3" {
			t.Errorf("map is %+v", s.Config.Map)
		}
		f.update(func(tx kv.Tx) error { _, err := f.sources.Pause(tx, f.Queue("jobs"), "orders"); return err })
		f.refeeds(s, source.ErrMoved, message(1))
		if s = f.found("jobs", "orders"); s.State != source.StatePaused {
			t.Errorf("state is %s", s.State)
		}
	})
}

// A queue that was deleted and made again while a batch was fetched gets nothing of it.
func TestSourceOfAnEarlierQueueFeedsNothing(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		f.update(func(tx kv.Tx) error { _, err := f.Queue("jobs").Delete(tx); return err })
		f.refeeds(s, source.ErrNone, message(1))
		f.source("jobs", "orders", ordersSource)
		f.refeeds(s, source.ErrNone, message(1))
		f.feed(f.found("jobs", "orders"), message(7))
		f.update(func(tx kv.Tx) error { _, err := f.Queue("jobs").Purge(tx); return err })
		if s = f.found("jobs", "orders"); s.Position.Seq != 7 {
			t.Errorf("a purge has left the source at %d", s.Position.Seq)
		}
		f.update(func(tx kv.Tx) error { return f.sources.Delete(tx, f.Queue("jobs"), "orders") })
		f.refeeds(s, source.ErrNone, message(8))
	})
}

// What fits into a full queue is in it, and the rest comes when there is room.
func TestSourceOfAFullQueue(t *testing.T) {
	eachSource(t, func(f *fixture) {
		f.configure("jobs", `{"max_length":3}`)
		s := f.source("jobs", "orders", ordersSource)
		fed := f.feed(s, messages(1, 5)...)
		if !errors.Is(fed.Blocked, fdbpq.ErrFull) || fed.Done != 3 || fed.Position.Seq != 3 || fed.Position.Blocked == 0 {
			t.Errorf("fed: %+v", fed)
		}
		if s = f.found("jobs", "orders"); s.Position != fed.Position {
			t.Errorf("position is %+v, expected %+v", s.Position, fed.Position)
		}
		f.expectPayloads("jobs", "1", "2", "3")
		fed = f.feed(s, messages(4, 5)...)
		if fed.Blocked != nil || fed.Position.Blocked != 0 || fed.Position.Seq != 5 {
			t.Errorf("fed: %+v", fed)
		}
		f.expectPayloads("jobs", "4", "5")
		full := errors.New("the store is full")
		s = f.found("jobs", "orders")
		bad := message(6)
		bad.Refused = errors.New("bad")
		f.update(func(tx kv.Tx) (err error) {
			fed, err = f.sources.Feed(tx, f.Queue("jobs"), &s, []source.Message{bad}, full)
			return err
		})
		if fed.Blocked != full || fed.Done != 0 || fed.Poisoned != 0 {
			t.Errorf("fed: %+v", fed)
		}
	})
}

// A message whose unique value an item has is delivered, and no further item.
func TestSourceOfUniqueMessages(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		all := messages(1, 4)
		for i, value := range []string{"a", "b", "a", ""} {
			all[i].Item.Unique = value
		}
		fed := f.feed(s, all...)
		if fed.Done != 4 || fed.Pushed != 3 || fed.Known != 1 || fed.Position.Delivered != 4 {
			t.Errorf("fed: %+v", fed)
		}
		later := message(5)
		later.Item.Unique = "b"
		if fed = f.feed(f.found("jobs", "orders"), later); fed.Done != 1 || fed.Pushed != 0 || fed.Known != 1 || fed.Position.Delivered != 5 {
			t.Errorf("fed: %+v", fed)
		}
		f.expectPayloads("jobs", "1", "2", "4")
	})
}

// A queue that evicts is never full, and what its source has it evict is reported.
func TestSourceOfAQueueThatEvicts(t *testing.T) {
	eachSource(t, func(f *fixture) {
		f.configure("jobs", `{"max_length":2,"overflow":"evict"}`)
		f.pushed("jobs", 9, "old", "older")
		s := f.source("jobs", "orders", ordersSource)
		fed := f.feed(s, messages(1, 2)...)
		if fed.Done != 2 || fed.Pushed != 2 || fed.Blocked != nil || len(fed.Events) != 2 {
			t.Errorf("fed: %+v", fed)
		}
		for _, e := range fed.Events {
			if e.Type != fdbpq.EventEvicted || e.Queue != "jobs" || e.Priority != 9 {
				t.Errorf("event %+v", e)
			}
		}
		f.expectPayloads("jobs", "1", "2")
	})
}

// Poison stops the source of a queue that can have no dead letters, behind what was before it.
func TestSourceWithoutDeadLetters(t *testing.T) {
	eachSource(t, func(f *fixture) {
		queue := strings.Repeat("q", fdbpq.MaxDeadLetterName)
		s := f.source(queue, "orders", ordersSource)
		all := messages(1, 3)
		all[1].Refused = errors.New("no such customer")
		fed := f.feed(s, all...)
		stop := fed.Position.Stop
		if fed.Done != 1 || stop.Reason != source.StopPoisoned || stop.At != all[1].Mark || stop.Since == 0 || fed.Poisoned != 0 {
			t.Errorf("fed: %+v", fed)
		}
		for _, part := range []string{"message 2: ", "no such customer", fdbpq.ErrNoDeadLetterQueue.Error()} {
			if !strings.Contains(stop.Text, part) {
				t.Errorf("it has stopped with %q, expected %q", stop.Text, part)
			}
		}
		f.expectPayloads(queue, "1")
	})
}

// Poison becomes a dead letter, at any place of a batch.
func TestSourceBuriesPoison(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		all := messages(1, 4)
		all[0].Refused = errors.New(`PQ-Priority is "high"`)
		all[2].None = true
		all[3].Item.Key = strings.Repeat("k", 1000)
		fed := f.feed(s, all...)
		if fed.Done != 4 || fed.Pushed != 1 || fed.Poisoned != 2 || fed.Position.Poisoned != 2 || fed.Position.Seq != 4 {
			t.Errorf("fed: %+v", fed)
		}
		f.expectPayloads("jobs", "2")
		popped := f.pop("jobs-dead", fdbpq.Min, 10)
		if len(popped.Items) != 2 {
			t.Fatalf("%d dead letters, expected 2", len(popped.Items))
		}
		dead := popped.Items[0].Dead
		if dead == nil || dead.Reason != `source: PQ-Priority is "high"` || dead.Origin != "jobs" || string(popped.Items[0].Payload) != "1" {
			t.Errorf("dead letter %s: %+v", popped.Items[0].Payload, dead)
		}
	})
}

// What the stream has dropped is counted with the message behind it, and once if that is none for an item.
func TestSourceCountsWhatIsMissing(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		all := []source.Message{message(3), message(4), message(9)}
		all[0].Missed, all[2].Missed = 2, 4
		all[2].Item.Payload = make([]byte, fdbpq.MaxContent+1)
		fed := f.feed(s, all...)
		if p := fed.Position; fed.Done != 2 || fed.Skipped != 6 || p.Skipped != 6 || p.Seq != 8 || p.Stop.At.Seq != 9 {
			t.Errorf("fed: %+v", fed)
		}
		f.resumeSource("jobs", "orders", source.Resume{Skip: true})
		if p := f.found("jobs", "orders").Position; p.Seq != 9 || p.Skipped != 6 || p.Poisoned != 1 {
			t.Errorf("position is %+v", p)
		}
	})
}

// What can be no dead letter stops the source, behind what was before it. A person passes over it.
func TestSourceStopsAtWhatIsTooLarge(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		all := messages(1, 3)
		all[1].Item.Payload = make([]byte, fdbpq.MaxContent+1)
		fed := f.feed(s, all...)
		if fed.Done != 1 || fed.Position.Stop.Reason != source.StopPoisoned || fed.Position.Stop.At.Seq != 2 || fed.Position.Seq != 1 {
			t.Errorf("fed: %+v", fed)
		}
		s = f.found("jobs", "orders")
		if s.State != source.StateStopped {
			t.Errorf("state is %s", s.State)
		}
		f.refeeds(s, source.ErrMoved, message(3))
		var refused *source.Error
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.sources.Resume(tx, f.Queue("jobs"), "orders", source.Resume{})
			return err
		}); !errors.As(err, &refused) {
			t.Errorf("resume without a word: %v", err)
		}
		f.resumeSource("jobs", "orders", source.Resume{Skip: true})
		s = f.found("jobs", "orders")
		if s.Position.Seq != 2 || s.Position.Content != 2 || s.Position.Poisoned != 1 {
			t.Errorf("position is %+v", s.Position)
		}
		f.feed(s, message(3))
		f.expectPayloads("jobs", "1", "3")
	})
}

func (f *fixture) resumeSource(queue, name string, from source.Resume) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.sources.Resume(tx, f.Queue(queue), name, from)
		return err
	})
}

// Where a source goes on when a person accepts the stream as it is, by the reason of its stop. One that takes goes on with the first message
// of the stream, whatever its position.
func TestSourceAccepts(t *testing.T) {
	eachSource(t, func(f *fixture) {
		first := source.Start{Word: source.StartFirst}
		younger := time.Unix(0, 10).UTC() // than message 9
		for _, c := range []struct {
			reason source.StopReason
			mode   string
			end    uint64 // of the stream when it was noticed
			seq    uint64
			from   source.Start
		}{
			{source.StopReplaced, "copy", 4, 0, first},
			{source.StopBehind, "copy", 4, 4, source.Start{Time: &younger}},
			{source.StopDiverged, "copy", 20, 9, source.Start{Time: &younger}},
			{source.StopReplaced, "take", 4, 0, first},
			{source.StopBehind, "take", 4, 0, first},
			{source.StopDiverged, "take", 20, 0, first},
			{source.StopConsumer, "take", 20, 9, first},
		} {
			queue := fmt.Sprint(c.reason, c.mode)
			s := f.source(queue, "orders", `{"remote":"hub","stream":"ORDERS","mode":"`+c.mode+`"}`)
			to := s.Position
			to.Created, to.Consumer = 1, 1
			f.moveSource(s, to)
			f.feed(f.found(queue, "orders"), message(9))
			s = f.found(queue, "orders")
			to = s.Position
			to.Stop = source.Stop{Reason: c.reason, At: source.Mark{Seq: c.end}}
			f.moveSource(s, to)
			f.resumeSource(queue, "orders", source.Resume{Accept: true})
			f.source(queue, "orders", `{"batch":7}`) // which moves nothing
			s = f.found(queue, "orders")
			if p := s.Position; p.Seq != c.seq || p.Created != 0 || p.Consumer != 0 || p.Stop.Reason != "" || !reflect.DeepEqual(s.StartsAt(), c.from) {
				t.Errorf("%s, %s: accepted at %+v, from %+v", c.mode, c.reason, p, s.StartsAt())
			}
		}
	})
}

func (f *fixture) moveSource(s source.Source, to source.Position) {
	f.Helper()
	f.update(func(tx kv.Tx) error { return f.sources.Move(tx, &s, to) })
}

// One bridge runs a source at a time. Another one may when it has said nothing for the term.
func TestSourceHasOneRunner(t *testing.T) {
	eachSource(t, func(f *fixture) {
		s := f.source("jobs", "orders", ordersSource)
		if s.State != source.StateStarting {
			t.Errorf("state is %s", s.State)
		}
		f.clock.advance(source.Term)
		if s := f.found("jobs", "orders"); s.State != source.StateNoRunner {
			t.Errorf("when nobody has run it for a while, state is %s", s.State)
		}
		alone := false
		run := func(runner string) (is bool) {
			f.update(func(tx kv.Tx) (err error) {
				is, err = f.sources.Run(tx, &s, source.Run{Runner: runner, Last: 12}, alone)
				return err
			})
			return is
		}
		if !run("a") || run("b") || !run("a") {
			t.Error("two run it, or none")
		}
		if s := f.found("jobs", "orders"); s.State != source.StateStarting || s.Run.Last != 12 {
			t.Errorf("%s, %+v", s.State, s.Run)
		}
		f.clock.advance(source.Term)
		if !run("b") || run("a") {
			t.Error("the term of the first one has not ended")
		}
		f.update(func(tx kv.Tx) error { return f.sources.Leave(tx, &s, "b") })
		if !run("a") {
			t.Error("the second one has left, and still runs it")
		}
		if alone = true; !run("c") {
			t.Error("a bridge that has the store for itself waits for one that is gone")
		}
		f.clock.advance(source.TermAlone / 2)
		if s := f.found("jobs", "orders"); s.State == source.StateNoRunner {
			t.Error("the word of a bridge that has the store for itself holds no longer than that of another one")
		}
		// Many at once: what one does not get, and what is gone, keeps it from no other one.
		f.update(func(tx kv.Tx) error { return f.sources.Leave(tx, &s, "c") })
		all := []source.Source{f.source("jobs", "taken", ordersSource), s, f.source("jobs", "gone", ordersSource), f.source("mail", "orders", ordersSource)}
		claims := make([]source.Claim, len(all))
		for i := range all {
			claims[i] = source.Claim{Source: &all[i], Run: source.Run{Runner: "e"}}
		}
		f.update(func(tx kv.Tx) error {
			_, err := f.sources.Run(tx, &all[0], source.Run{Runner: "d"}, false)
			return errors.Join(err, f.sources.Delete(tx, f.Queue("jobs"), "gone"))
		})
		var mine []bool
		f.update(func(tx kv.Tx) (err error) {
			mine, err = f.sources.RunMany(tx, claims, false)
			return err
		})
		if !slices.Equal(mine, []bool{false, true, false, true}) {
			t.Errorf("of the sources one gets %v", mine)
		}
	})
}

func TestSourceFields(t *testing.T) {
	eachSource(t, func(f *fixture) {
		for _, object := range []string{
			`{}`, `{"remote":"hub"}`, `{"remote":"hub","stream":"A.B"}`, `{"remote":"hub","stream":"A","mode":"move"}`,
			`{"remote":"hub","stream":"A","start":"last"}`, `{"remote":"hub","stream":"A","start":{"seq":0}}`, `{"remote":"hub","stream":"A","start":{"seq":1,"time":"2030-01-01T00:00:00Z"}}`,
			`{"remote":"hub","stream":"A","mode":"take","start":"new"}`, `{"remote":"hub","stream":"A","batch":0}`, `{"remote":"hub","stream":"A","batch":1001}`,
			`{"remote":"hub","stream":"A","filter":["a..b"]}`, `{"remote":"hub","stream":"A","filter":["a.>","a.b"]}`, `{"remote":"hub","stream":"A","filter":["a.*","*.b"]}`, `{"remote":"hub","stream":"A","map":{"colour":"red"}}`, `{"remote":"hub","stream":"A","map":{"key":{}}}`,
			`{"remote":"hub","stream":"A","map":{"key":{"header":"A","token":1}}}`, `{"remote":"hub","stream":"A","map":{"key":""}}`, `{"remote":"hub","stream":"A","paused":null}`,
		} {
			var refused *source.Error
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.sources.Set(tx, f.Queue("jobs"), "orders", []byte(object), allowed)
				return err
			})
			if !errors.As(err, &refused) {
				t.Errorf("%s: %v", object, err)
			}
		}
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		s := f.source("jobs", "orders", `{"remote":"hub","stream":"A","start":{"time":"2030-01-02T03:04:05Z"},"filter":["a.*","a.*.b","b"],"map":{"priority":7}}`)
		if s = f.found("jobs", "orders"); !s.StartsAt().Time.Equal(at) || s.Config.Map["priority"].Constant != "7" {
			t.Errorf("the source is %+v", s)
		}
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.sources.Set(tx, f.Queue("jobs"), "orders", []byte(`{"stream":"B"}`), allowed)
			return err
		}); !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("another stream: %v", err)
		}
		no := errors.New("no")
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.sources.Set(tx, f.Queue("jobs"), "other", []byte(ordersSource), func(source.Config) error { return no })
			return err
		}); !errors.Is(err, no) {
			t.Errorf("a source that is not allowed: %v", err)
		}
	})
}

func TestSourcesAreBounded(t *testing.T) {
	eachSource(t, func(f *fixture) {
		f.update(func(tx kv.Tx) error {
			for i := range source.MaxCount {
				if _, err := f.sources.Set(tx, f.Queue("jobs"), fmt.Sprintf("s%03d", i), []byte(ordersSource), allowed); err != nil {
					return err
				}
			}
			return nil
		})
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.sources.Set(tx, f.Queue("jobs"), "more", []byte(ordersSource), allowed)
			return err
		}); !errors.Is(err, source.ErrTooMany) {
			t.Errorf("one source too many: %v", err)
		}
		f.view(func(r kv.Reader) error {
			page, err := f.sources.List(r, f.Queue("jobs"), "s097", 10)
			if err != nil || len(page) != 2 || page[0].Name != "s098" {
				t.Errorf("page: %+v, %v", page, err)
			}
			all, err := f.sources.All(r)
			if err != nil || len(all) != source.MaxCount {
				t.Errorf("%d sources in all, %v", len(all), err)
			}
			return nil
		})
	})
}
