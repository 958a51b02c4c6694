package bridge_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// rereads is a store whose next read of queue jobs runs twice, with something done in between. Others
// read, too: what falls due, and the store's time.
type rereads struct {
	kv.DB
	between atomic.Pointer[func()]
}

func (d *rereads) View(ctx context.Context, fn func(kv.Reader) error) error {
	var seen *readsJobs
	err := d.DB.View(ctx, func(r kv.Reader) error {
		seen = &readsJobs{Reader: r}
		return fn(seen)
	})
	if err != nil || !seen.is {
		return err
	}
	between := d.between.Swap(nil)
	if between == nil {
		return nil
	}
	(*between)()
	return d.DB.View(ctx, fn)
}

// readsJobs knows whether a read is of queue jobs.
type readsJobs struct {
	kv.Reader
	is bool
}

func (r *readsJobs) saw(key []byte) { r.is = r.is || bytes.Contains(key, []byte("jobs")) }

func (r *readsJobs) Get(key []byte) ([]byte, error) {
	r.saw(key)
	return r.Reader.Get(key)
}

func (r *readsJobs) GetAll(keys [][]byte) ([][]byte, error) {
	for _, key := range keys {
		r.saw(key)
	}
	return r.Reader.GetAll(keys)
}

func (r *readsJobs) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	r.saw(begin)
	return r.Reader.Range(begin, end, opts)
}

// A query that runs again is answered with what the last run found.
func TestAnswerOfTheLastRead(t *testing.T) {
	t.Parallel()
	db := &rereads{DB: faulty(t)}
	c := serveOn(t, db, bridge.Options{Exclusive: true})
	for _, subject := range []string{"pq.jobs.info", "pq.jobs.list", "pq.jobs.peek.min"} {
		c.ask("pq.jobs.admin.delete", "")
		push := func() { c.pushPast(fdbpq.NewItem{Payload: []byte("x")}) }
		db.between.Store(&push)
		if m := c.ask(subject, ""); m.Header.Get("Nats-Service-Error") != "" || len(m.Data) == 0 {
			t.Errorf("%s: %q, %v", subject, m.Data, m.Header)
		}
	}
}

// The answers of the queries that share a read are bounded.
func TestQueriesOfOneRead(t *testing.T) {
	t.Parallel()
	db := &rereads{DB: faulty(t)}
	c := serveOn(t, db, bridge.Options{Exclusive: true, Limits: bridge.Limits{BatchBytes: 100}})
	c.push("pq.jobs.push", "x")
	blocked, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	defer release()
	block := func() {
		blocked <- struct{}{}
		<-released
	}
	db.between.Store(&block)
	all := []answers{c.send("pq.jobs.list", "")}
	select {
	case <-blocked:
	case <-testenv.Late():
		t.Fatal("nothing was read")
	}
	for range 3 {
		all = append(all, c.send("pq.jobs.list", ""))
	}
	c.inFlight("work", 4)
	reads := func() float64 { return c.own()["pq_batch_requests{kind=read}"] }
	before := reads()
	release()
	for _, answer := range all {
		if m := c.next(answer); len(m.Data) < 100 {
			t.Fatalf("%q, %v", m.Data, m.Header)
		}
	}
	c.inFlight("work", 0)
	if n := reads() - before; n != 4 {
		t.Errorf("%g reads for 4 large answers, expected one for each", n)
	}
}
