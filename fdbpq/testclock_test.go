package fdbpq_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// testClock is time as tests let it pass.
type testClock struct {
	elapsed atomic.Int64
}

func newTestClock() *testClock { return &testClock{} }

func (c *testClock) advance(d time.Duration) { c.elapsed.Add(int64(d)) }

// options are those of a process whose wall clock is wrong by skew.
func (c *testClock) options(skew time.Duration) fdbpq.Options {
	elapsed := func() time.Duration { return time.Duration(c.elapsed.Load()) }
	return fdbpq.Options{
		Elapsed: elapsed,
		Wait: func(_ context.Context, d time.Duration) error {
			c.advance(d)
			return nil
		},
		Wall: func() time.Time { return time.Unix(1_800_000_000, 0).Add(elapsed() + skew) },
	}
}
