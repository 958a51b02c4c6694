package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

var oneItem = fdbpq.Selection{End: fdbpq.Min, Limit: 1}

// Those who wait are served in the order they came, each item to one of them.
func TestTakeWaitServesInOrder(t *testing.T) {
	s := openLocal(t, fdbpq.Options{})
	const waiters = 20
	type result struct {
		waiter  int
		payload string
	}
	results := make(chan result)
	for i := range waiters {
		go func() {
			taken, err := s.TakeWait(t.Context(), "q", oneItem, 0)
			if err != nil {
				t.Error(err)
				results <- result{waiter: i}
				return
			}
			results <- result{i, string(taken.Items[0].Payload)}
		}()
		fdbpq.AwaitLine(s, "q", i+1)
	}
	for i := range waiters {
		push(t, s, "q", fmt.Sprint(i))
		if got := <-results; got.waiter != i || got.payload != fmt.Sprint(i) {
			t.Errorf("waiter %d got item %q, want waiter and item %d", got.waiter, got.payload, i)
		}
	}
}

// A waiter that gives up leaves the line, and what arrives goes to the next.
func TestTakeWaitGivesUp(t *testing.T) {
	s := openLocal(t, fdbpq.Options{})
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := s.TakeWait(ctx, "q", oneItem, 0)
		gone <- err
	}()
	fdbpq.AwaitLine(s, "q", 1)
	served := make(chan string)
	go func() {
		taken, err := s.TakeWait(t.Context(), "q", oneItem, time.Minute)
		if err != nil || len(taken.Items) != 1 {
			t.Errorf("got %v, %v", taken.Items, err)
			served <- ""
			return
		}
		served <- string(taken.Items[0].Payload)
	}()
	fdbpq.AwaitLine(s, "q", 2)
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v, want %v", err, context.Canceled)
	}
	push(t, s, "q", "a")
	if got := <-served; got != "a" {
		t.Errorf("the next one got %q, want %q", got, "a")
	}
}

// All that makes an item takeable wakes a waiter.
func TestTakeWaitWakes(t *testing.T) {
	for name, wake := range map[string]func(t *testing.T, s *fdbpq.Store, c *testClock){
		"push": func(t *testing.T, s *fdbpq.Store, _ *testClock) { push(t, s, "q", "a") },
		"resume": func(t *testing.T, s *fdbpq.Store, _ *testClock) {
			push(t, s, "q", "a")
			update(t, s, s.Queue("q").Resume)
		},
		"delay over": func(t *testing.T, s *fdbpq.Store, c *testClock) {
			update(t, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Push(tx, fdbpq.NewItem{Payload: []byte("a"), Delay: time.Minute})
				return err
			})
			c.advance(time.Minute)
			if _, err := s.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestClock()
			s := openLocal(t, c.options(0))
			if name == "resume" {
				push(t, s, "q")
				update(t, s, func(tx kv.Tx) error {
					if _, err := s.Queue("q").Configure(tx, []byte("{}")); err != nil {
						return err
					}
					return s.Queue("q").Pause(tx)
				})
			}
			served := make(chan string)
			go func() {
				taken, err := s.TakeWait(t.Context(), "q", oneItem, 0)
				if err != nil {
					t.Error(err)
					served <- ""
					return
				}
				served <- string(taken.Items[0].Payload)
			}()
			fdbpq.AwaitLine(s, "q", 1)
			wake(t, s, c)
			if got := <-served; got != "a" {
				t.Errorf("got %q, want %q", got, "a")
			}
		})
	}
}
