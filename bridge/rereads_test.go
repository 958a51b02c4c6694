package bridge_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// rereads is a store whose next read runs twice, with something done in between.
type rereads struct {
	kv.DB
	between atomic.Pointer[func()]
}

func (d *rereads) View(ctx context.Context, fn func(kv.Reader) error) error {
	between := d.between.Swap(nil)
	if between == nil {
		return d.DB.View(ctx, fn)
	}
	if err := d.DB.View(ctx, fn); err != nil {
		return err
	}
	(*between)()
	return d.DB.View(ctx, fn)
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
	case <-time.After(patience):
		t.Fatal("nothing was read")
	}
	for range 3 {
		all = append(all, c.send("pq.jobs.list", ""))
	}
	c.inFlight("work", 4)
	reads := func() float64 { return c.metrics()["pq_batch_requests{kind=read}"] }
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
