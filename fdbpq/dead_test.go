package fdbpq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func (b *bench) terminate(lease fdbpq.Lease) error {
	session := b.Session()
	defer session.Release()
	return session.Update(b.Context(), func(tx kv.Tx) error {
		_, err := b.Queue(lease.Queue).Terminate(tx, lease, "poison")
		return err
	})
}

// dies pushes an item and gives it up.
func (b *bench) dies(queue string) {
	b.Helper()
	b.push(queue, fdbpq.NewItem{Payload: []byte("from " + queue)})
	if err := b.terminate(*b.leaseOne(queue, time.Hour).Lease); err != nil {
		b.Errorf("give up an item of %s: %v", queue, err)
	}
}

// has holds how many items are ready in queues; those that are not named have
// none, or are not there.
func (b *bench) has(what string, want map[string]int64) {
	b.Helper()
	b.view(func(r kv.Reader) error {
		names, err := b.Queues(r, "", 100)
		for _, name := range names {
			n, err := b.Queue(name).Counts(r)
			if err != nil {
				return err
			}
			if n.Ready != want[name] {
				b.Errorf("%s: %d items are ready in %s, expected %d", what, n.Ready, name, want[name])
			}
			delete(want, name)
		}
		for name, n := range want {
			if n > 0 {
				b.Errorf("%s: there is no queue %s", what, name)
			}
		}
		return err
	})
}

// Nobody makes a dead-letter queue of another queue by configuring an own one:
// the other one's configuration has to name it. It remains a queue like any
// other, and takes dead letters for as long as it says so.
func TestDeadLettersNeedConsent(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		choose := func(queue, target string) error {
			session := b.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := b.Queue(queue).Configure(tx, []byte(`{"dead_letter":"`+target+`"}`))
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
		b.pushed("victim", 0, "its own")
		refused("a", "victim")
		refused("a", "nowhere")
		refused("a", "a")
		b.has("refused", map[string]int64{"victim": 1})
		if err := choose("a", "a-dead"); err != nil { // its own, by its name
			t.Error(err)
		}

		b.configure("victim", `{"dead_letters_from":"x,a","max_length":1}`)
		refused("b", "victim")
		if err := choose("a", "victim"); err != nil {
			t.Error(err)
		}
		b.dies("a")
		b.has("with consent", map[string]int64{"victim": 2})
		b.take("victim", fdbpq.Min, 2)
		b.dies("victim")
		b.has("what was pushed to it dies as everywhere", map[string]int64{"victim-dead": 1})

		b.configure("victim", `{"dead_letters_from":""}`)
		b.dies("a")
		b.has("without consent", map[string]int64{"victim-dead": 1, "a-dead": 1})
		b.configure("victim", `{"dead_letters_from":"*"}`)
		b.dies("a")
		b.has("with consent again", map[string]int64{"victim-dead": 1, "a-dead": 1, "victim": 1})
		b.delete("victim")
		b.dies("a")
		b.has("it was deleted", map[string]int64{"victim-dead": 1, "a-dead": 2})

		for _, bad := range []string{`{"dead_letters_from":"a,,b"}`, `{"dead_letters_from":","}`} {
			err := b.fails(func(tx kv.Tx) error {
				_, err := b.Queue("q").Configure(tx, []byte(bad))
				return err
			})
			var config *fdbpq.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}

// A dead letter does not die of its deliveries, and is dropped when it is given
// up again or outlives its TTL. What is pushed beside it is an item like any other.
func TestDeadLettersDieOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q-dead", `{"max_deliveries":1,"dead_letter_expired":true,"ttl":"1h"}`)
		b.dies("q")
		for range 3 {
			if err := b.nack(*b.leaseOne("q-dead", time.Minute).Lease, 0); err != nil {
				t.Fatal(err)
			}
		}
		b.has("a dead letter came back three times", map[string]int64{"q-dead": 1})
		if err := b.terminate(*b.leaseOne("q-dead", time.Minute).Lease); err != nil {
			t.Error(err)
		}
		b.has("it was given up again", nil)

		b.dies("q")
		b.pass(time.Hour)
		if events := b.sweep(); len(events) != 1 || events[0].Type != fdbpq.EventExpired {
			t.Errorf("events %v, expected that the dead letter outlived the TTL of its queue", events)
		}
		b.has("it outlived its TTL", nil)

		b.pushed("q-dead", 0, "ordinary")
		if err := b.nack(*b.leaseOne("q-dead", time.Minute).Lease, 0); err != nil {
			t.Error(err)
		}
		b.has("an ordinary item came back", map[string]int64{"q-dead-dead": 1})
	})
}

// Where pushes make no queues, neither do items that are given up: a queue's own
// dead-letter queue is made with it. Without one nothing is lost.
func TestDeadLettersMakeNoQueue(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		owner := openBench(t, open)
		options := owner.clock.options(0)
		options.RefuseUnknown = true
		b := owner.opened(options)
		b.configure("q", `{"max_deliveries":1,"dead_letter_expired":true}`)
		b.has("made", map[string]int64{"q": 0, "q-dead": 0})
		b.dies("q")
		b.has("given up", map[string]int64{"q-dead": 1})

		b.delete("q-dead")
		b.pushed("q", 0, "stays")
		item := b.leaseOne("q", time.Hour)
		if err := b.terminate(*item.Lease); !errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
			t.Errorf("given up without a dead-letter queue: %v", err)
		}
		if err := b.nack(*item.Lease, 0); err != nil {
			t.Errorf("the lease: %v", err)
		}
		b.leaseOne("q", time.Minute)
		b.pass(time.Hour)
		b.sweep()
		b.has("came back twice", map[string]int64{"q": 1})
		b.push("q", fdbpq.NewItem{TTL: time.Second})
		b.pass(time.Hour)
		if events := b.sweep(); len(events) != 1 || events[0].Type != fdbpq.EventExpired {
			t.Errorf("events %v, expected one that expired", events)
		}
		b.has("expired", map[string]int64{"q": 1})
	})
}
