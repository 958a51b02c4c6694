package bridge_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// slowReads is a store in which each read of the queue jobs outside of a transaction
// waits until the test lets it go on.
type slowReads struct {
	kv.DB
	reads chan chan struct{}
}

func (s *slowReads) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.DB.View(ctx, func(r kv.Reader) error { return fn(&slowReader{Reader: r, db: s}) })
}

// slowReader is one state of the store. A query of jobs reads it several times, and waits
// once.
type slowReader struct {
	kv.Reader
	db     *slowReads
	waited bool
}

func (r *slowReader) wait(key []byte) {
	if !r.waited && bytes.Contains(key, []byte("jobs")) {
		r.waited = true
		released := make(chan struct{})
		r.db.reads <- released
		<-released
	}
}

func (r *slowReader) Get(key []byte) ([]byte, error) {
	r.wait(key)
	return r.Reader.Get(key)
}

func (r *slowReader) GetAll(keys [][]byte) ([][]byte, error) {
	for _, key := range keys {
		r.wait(key)
	}
	return r.Reader.GetAll(keys)
}

func (r *slowReader) Range(begin, end []byte, o kv.RangeOptions) ([]kv.Pair, error) {
	r.wait(begin)
	return r.Reader.Range(begin, end, o)
}

// next waits for the next read.
func (s *slowReads) next(t *testing.T) (release func()) {
	t.Helper()
	select {
	case released := <-s.reads:
		return func() { close(released) }
	case <-testenv.Late():
		t.Fatal("nothing is read")
		return nil
	}
}

// Queries wait for a bounded time behind slow queries of their queue, and are then
// refused; new ones are refused at once. Other queues notice nothing.
func TestSlowQueries(t *testing.T) {
	t.Parallel()
	db := &slowReads{DB: faulty(t), reads: make(chan chan struct{})}
	var waited atomic.Int64
	c := serveOn(t, db, bridge.Since(func(time.Time) time.Duration { return time.Duration(waited.Load()) }))
	slow := c.send("pq.jobs.info", "")
	release := db.next(t)
	first, second := c.send("pq.jobs.info", ""), c.send("pq.jobs.info", "")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.raw("pq.jobs.info.x", "") // by now the bridge has both
	waited.Store(int64(3 * time.Second))
	for _, subject := range []string{"info", "list", "peek.min"} {
		c.refused(c.raw("pq.jobs."+subject, ""), 429, "busy")
	}
	c.refused(c.raw("pq.other.info", ""), 404)
	release()
	c.refused(c.next(slow), 404)
	release = db.next(t)
	waited.Store(int64(5 * time.Second))
	release()
	c.refused(c.next(first), 404)
	c.refused(c.next(second), 429, "busy")
	waited.Store(0)
	again := c.send("pq.jobs.info", "")
	db.next(t)()
	c.refused(c.next(again), 404)
}
