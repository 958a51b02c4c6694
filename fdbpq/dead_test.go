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

func (f *fixture) terminate(lease fdbpq.Lease) error {
	session := f.Session()
	defer session.Release()
	return session.Update(f.Context(), func(tx kv.Tx) error {
		_, err := f.Queue(lease.Queue).Terminate(tx, lease, "poison")
		return err
	})
}

// dies pushes an item and terminates it.
func (f *fixture) dies(queue string) {
	f.Helper()
	f.push(queue, fdbpq.NewItem{Payload: []byte("from " + queue)})
	if err := f.terminate(*f.leaseOne(queue, time.Hour).Lease); err != nil {
		f.Errorf("give up an item of %s: %v", queue, err)
	}
}

// has checks how many items are ready in each queue. Other queues have none, or do not
// exist.
func (f *fixture) has(what string, want map[string]int64) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		names, err := f.Queues(r, "", 100)
		for _, name := range names {
			n, err := f.Queue(name).Counts(r)
			if err != nil {
				return err
			}
			if n.Ready != want[name] {
				f.Errorf("%s: %d items are ready in %s, expected %d", what, n.Ready, name, want[name])
			}
			delete(want, name)
		}
		for name, n := range want {
			if n > 0 {
				f.Errorf("%s: there is no queue %s", what, name)
			}
		}
		return err
	})
}

// A queue accepts dead letters of another queue only while its own configuration names
// that queue. It remains an ordinary queue.
func TestDeadLettersNeedConsent(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		choose := func(queue, target string) error {
			session := f.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue(queue).Configure(tx, []byte(`{"dead_letter":"`+target+`"}`))
				return err
			})
		}
		refused := func(queue, target string) {
			t.Helper()
			var config *fdbpq.ConfigError
			if err := choose(queue, target); !errors.As(err, &config) {
				t.Errorf("%s chose %s for its dead letters: %v, expected to be refused", queue, target, err)
			}
		}
		f.pushed("victim", 0, "its own")
		refused("a", "victim")
		refused("a", "nowhere")
		refused("a", "a")
		f.configure("a", `{"dead_letters_from":"a"}`)
		refused("a", "a")
		f.has("refused", map[string]int64{"victim": 1})
		if err := choose("a", "a-dead"); err != nil { // its own, by its name
			t.Error(err)
		}

		f.configure("victim", `{"dead_letters_from":"x,a","max_length":1}`)
		refused("b", "victim")
		if err := choose("a", "victim"); err != nil {
			t.Error(err)
		}
		f.dies("a")
		f.has("with consent", map[string]int64{"victim": 2})
		f.pop("victim", fdbpq.Min, 2)
		f.dies("victim")
		f.has("what was pushed to it dies as everywhere", map[string]int64{"victim-dead": 1})

		f.configure("victim", `{"dead_letters_from":""}`)
		if err := choose("a", "victim"); err != nil {
			t.Errorf("a configuration that names the same queue again: %v", err)
		}
		f.dies("a")
		f.has("without consent", map[string]int64{"victim-dead": 1, "a-dead": 1})
		f.configure("victim", `{"dead_letters_from":"*"}`)
		f.dies("a")
		f.has("with consent again", map[string]int64{"victim-dead": 1, "a-dead": 1, "victim": 1})
		f.delete("victim")
		f.dies("a")
		f.has("it was deleted", map[string]int64{"victim-dead": 1, "a-dead": 2})

		for _, bad := range []string{`{"dead_letters_from":"a,,b"}`, `{"dead_letters_from":","}`} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Configure(tx, []byte(bad))
				return err
			})
			var config *fdbpq.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

// max_deliveries does not apply to a dead letter, which is dropped when it is given up or
// outlives its TTL. Pushed items in the same queue are ordinary ones.
func TestDeadLettersDieOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q-dead", `{"max_deliveries":1,"dead_letter_expired":true,"ttl":"1h"}`)
		f.dies("q")
		for range 3 {
			if err := f.nack(*f.leaseOne("q-dead", time.Minute).Lease, 0); err != nil {
				t.Fatal(err)
			}
		}
		f.has("a dead letter came back three times", map[string]int64{"q-dead": 1})
		if err := f.terminate(*f.leaseOne("q-dead", time.Minute).Lease); err != nil {
			t.Error(err)
		}
		f.has("it was given up again", nil)

		f.dies("q")
		f.pass(time.Hour)
		if events := f.sweep(); len(events) != 1 || events[0].Type != fdbpq.EventExpired {
			t.Errorf("events %v, expected that the dead letter outlived the TTL of its queue", events)
		}
		f.has("it outlived its TTL", nil)

		f.pushed("q-dead", 0, "ordinary")
		if err := f.nack(*f.leaseOne("q-dead", time.Minute).Lease, 0); err != nil {
			t.Error(err)
		}
		f.has("an ordinary item came back", map[string]int64{"q-dead-dead": 1})
	})
}

// If pushes do not create queues, dead letters do not either: a dead-letter queue is
// created with its queue. Without one no item is lost.
func TestDeadLettersMakeNoQueue(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		owner := openFixture(t, open)
		options := owner.clock.options(0)
		options.RefuseUnknown = true
		f := owner.opened(options)
		f.configure("q", `{"max_deliveries":1,"dead_letter_expired":true}`)
		f.has("made", map[string]int64{"q": 0, "q-dead": 0})
		f.dies("q")
		f.has("given up", map[string]int64{"q-dead": 1})

		f.delete("q-dead")
		f.pushed("q", 0, "stays")
		item := f.leaseOne("q", time.Hour)
		if err := f.terminate(*item.Lease); !errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
			t.Errorf("given up without a dead-letter queue: %v", err)
		}
		if err := f.nack(*item.Lease, 0); err != nil {
			t.Errorf("the lease: %v", err)
		}
		f.leaseOne("q", time.Minute)
		f.pass(time.Hour)
		f.sweep()
		f.has("came back twice", map[string]int64{"q": 1})
		f.push("q", fdbpq.NewItem{TTL: time.Second})
		f.pass(time.Hour)
		if events := f.sweep(); len(events) != 1 || events[0].Type != fdbpq.EventExpired {
			t.Errorf("events %v, expected one that expired", events)
		}
		f.has("expired", map[string]int64{"q": 1})
	})
}

// An item that kills its workers becomes a dead letter after its last interruption, with its
// priority, its headers and its origin.
func TestPoison(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":3}`)
		pushed := f.push("q", fdbpq.NewItem{Payload: []byte("poison"), Headers: []byte("headers"), Priority: 7, HasPriority: true})[0]
		for n := range int64(3) {
			item := f.leaseOne("q", time.Second)
			if item.Deliveries != n+1 || item.Lease.Fence != n+1 {
				t.Errorf("delivery %d says %d, fence %d", n+1, item.Deliveries, item.Lease.Fence)
			}
			f.pass(time.Second) // and the worker is dead
			f.sweep()
		}
		if n := f.counts("q").Length(); n != 0 {
			t.Errorf("%d items are left after the last delivery", n)
		}
		died := f.clock.options(0).Wall()
		for range 20 { // a dead letter has no limit of interruptions
			item := f.leaseOne("q-dead", time.Second)
			want := fdbpq.DeadLetter{Reason: fdbpq.DeadInterruptions, Origin: "q", OriginID: pushed.ID.String(), At: died, Deliveries: 3, Interruptions: 3}
			if item.Priority != 7 || string(item.Headers) != "headers" || *item.Dead != want || item.ID == pushed.ID {
				t.Fatalf("the dead item is %+v", item)
			}
			f.pass(time.Second)
			f.sweep()
		}
		// A delivery that was not received does not count.
		f.pushed("q", 0, "lucky")
		for range 5 {
			item := f.leaseOne("q", time.Second)
			if item.Deliveries != 1 {
				t.Errorf("delivery %d, although none was received", item.Deliveries)
			}
			err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, *item.Lease) })
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A queue whose default dead-letter queue would have too long a name has none, and says so
// when it would be needed.
func TestDeadLettersOfLongName(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for n, long := range map[int]bool{fdbpq.MaxDeadLetterName - len(fdbpq.DeadLetterSuffix): false, fdbpq.MaxDeadLetterName: true} {
			queue := strings.Repeat("q", n)
			f.pushed(queue, 0, "one")
			if err := f.terminate(*f.leaseOne(queue, time.Hour).Lease); errors.Is(err, fdbpq.ErrNoDeadLetterQueue) != long {
				t.Errorf("terminate in a queue whose name has %d bytes: %v", n, err)
			}
			session := f.Session()
			err := session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue(queue).Configure(tx, []byte(`{"dead_letter_expired":true}`))
				return err
			})
			session.Release()
			var config *fdbpq.ConfigError
			if errors.As(err, &config) != long {
				t.Errorf("dead_letter_expired in a queue whose name has %d bytes: %v", n, err)
			}
		}
	})
}

// Where pushes make no queues, a queue is made with its dead-letter queue, and that one with
// none of its own.
func TestDeadLetterQueueIsMadeAlone(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		before := openFixture(t, open)
		options := before.clock.options(0)
		options.RefuseUnknown = true
		f := before.opened(options)
		f.configure("q", `{}`)
		f.configure("other-dead", `{}`)
		f.view(func(r kv.Reader) error {
			names, err := f.Queues(r, "", 10)
			if want := "[other-dead q q-dead]"; fmt.Sprint(names) != want {
				t.Errorf("there are the queues %q, expected %s", names, want)
			}
			return err
		})
	})
}

// The reason of a dead letter is text, however it was cut.
func TestReasonIsText(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for reason, want := range map[string]string{"no\xff \xe9text": "no text", "x" + strings.Repeat("é", 600): "x" + strings.Repeat("é", 511)} {
			f.pushed("q", 0, "one")
			l := *f.leaseOne("q", time.Hour).Lease
			if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Terminate(tx, l, reason) }); err != nil {
				t.Fatal(err)
			}
			if dead := f.pop("q-dead", fdbpq.Min, 1).Items[0].Dead; dead.Reason != want {
				t.Errorf("the reason is %q, expected %q", dead.Reason, want)
			}
		}
	})
}

// A tenant's queue and its default dead-letter queue count as one: nothing asks whether the second one of them may be made. What
// would begin another pair is asked about, or not made.
func TestQueuesCountInPairs(t *testing.T) {
	t.Parallel()
	refusal := errors.New("too many queues")
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, c := range []struct {
			there []string
			made  string
			asks  bool
		}{
			{nil, "T.a", true},
			{nil, "T.b-dead", true},
			{[]string{"T.c"}, "T.c-dead", false},
			{[]string{"T.d-dead"}, "T.d", false},
			{[]string{"T.e", "T.e-dead"}, "T.e-dead-dead", true},
			{[]string{"T.f-dead-dead"}, "T.f-dead", true},
			{[]string{"T.f-dead-dead"}, "T.f-dead-dead-dead", true},
			{[]string{"U.g", "T.gg"}, "T.g-dead", true},
		} {
			for _, name := range c.there {
				f.push(name, fdbpq.NewItem{})
			}
			var counted bool
			f.view(func(r kv.Reader) (err error) {
				counted, err = f.Queue(c.made).Counted(r)
				return err
			})
			err := f.db.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue(c.made).Making(func() error { return refusal }).Push(tx, fdbpq.NewItem{})
				return err
			})
			if errors.Is(err, refusal) != c.asks || !c.asks && err != nil || counted == c.asks {
				t.Errorf("beside %q: %s is made with %v, and counted before: %v", c.there, c.made, err, counted)
			}
		}
	})
}

// In a tenant's dead-letter queue items that are no dead letters stay, unless it has one of its own: that would be a queue more, which
// nobody has asked for.
func TestDeadLettersBeginNoPair(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.dies("T.a")
		f.dies("a-dead") // of no tenant
		f.has("usually", map[string]int64{"T.a-dead": 1, "a-dead-dead": 1})
		configured := func(object string) error {
			return f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("T.a-dead").Configure(tx, []byte(object))
				return err
			})
		}
		for _, object := range []string{`{"dead_letter":"a-dead-dead"}`, `{"dead_letter_expired":true}`} {
			if err := configured(object); err == nil || !strings.Contains(err.Error(), `make the queue "a-dead-dead"`) {
				t.Errorf("%s: %v", object, err)
			}
		}
		f.configure("T.a-dead", `{"max_deliveries":1}`)
		f.push("T.a-dead", fdbpq.NewItem{Priority: -1, HasPriority: true})
		lease := *f.leaseOne("T.a-dead", time.Hour).Lease
		if err := f.terminate(lease); !errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
			t.Errorf("+TERM: %v", err)
		}
		if err := f.nack(lease, 0); err != nil {
			t.Error(err)
		}
		f.has("after the last delivery", map[string]int64{"T.a-dead": 2, "a-dead-dead": 1})

		f.configure("T.a-dead-dead", `{}`)
		if err := f.terminate(*f.leaseOne("T.a-dead", time.Hour).Lease); err != nil {
			t.Error(err)
		}
		f.has("beside one that is there", map[string]int64{"T.a-dead": 1, "T.a-dead-dead": 1, "a-dead-dead": 1})
		f.configure("T.a-dead", `{"dead_letter":"a-dead-dead","dead_letter_expired":true}`)

		letter := f.everything("T.a-dead-dead")[0].ID
		f.delete("T.a")
		f.delete("T.a-dead")
		refusal := errors.New("too many queues")
		requeue := func(tx kv.Tx) error {
			_, err := f.Queue("T.a-dead-dead").Making(func() error { return refusal }).Requeue(tx, letter, "")
			return err
		}
		if err := f.fails(requeue); !errors.Is(err, refusal) {
			t.Errorf("a requeue that makes the queue: %v", err)
		}
		f.push("T.a", fdbpq.NewItem{})
		f.update(requeue)
		f.has("after a requeue", map[string]int64{"T.a": 1, "T.a-dead": 1, "a-dead-dead": 1})
	})
}
