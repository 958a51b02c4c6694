package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// flaky is one process's connection to a store, on which things go wrong: by
// chance, or as a test asks for. It is for one goroutine.
type flaky struct {
	kv.DB
	rng   *rand.Rand
	rates [faults]int // in a thousand transactions
	next  fault       // of the next transaction that writes, whatever the rates say
	after fault       // of the one that writes after that
	away  int         // how many transactions find the store away after it
	dies  bool        // the connection is gone after it
	dead  bool

	parked chan struct{} // when set: the next transaction that writes says here that it ran,
	resume chan struct{} // and waits for this before it commits
	runs   int           // how often that one ran

	held []*straggler
	last bool // whether the transaction with the last unknown result took effect by now
}

// fault is what can go wrong with a transaction.
type fault int

const (
	faultNone        fault = iota
	faultConflict          // the closure runs again
	faultUnavailable       // it does not run
	faultLost              // unknown result; it never takes effect
	faultDone              // unknown result; it took effect
	faultStraggle          // unknown result; it takes effect later, unless something hinders it
	faults
)

func (f fault) String() string {
	return [...]string{"none", "conflict", "unavailable", "lost", "done", "straggle"}[f]
}

// straggler is a transaction that its process knows nothing of any more, held
// just before its commit.
type straggler struct {
	ran     chan error
	release chan struct{}
	ended   chan struct{}
	runs    int
	late    bool // it did take effect
}

var errAbandoned = errors.New("abandoned by the test")

func (f *flaky) choose() fault {
	if f.next != faultNone {
		return f.next
	}
	if f.rng == nil {
		return faultNone
	}
	n := f.rng.IntN(1000)
	for kind, rate := range f.rates {
		if n -= rate; n < 0 {
			return fault(kind)
		}
	}
	return faultNone
}

func (f *flaky) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if f.dead {
		return kv.ErrClosed
	}
	if f.parked != nil {
		return f.park(ctx, fn)
	}
	if f.next == faultNone && f.away > 0 {
		f.away--
		return f.update(ctx, faultUnavailable, fn)
	}
	kind := f.choose()
	err := f.update(ctx, kind, fn)
	if errors.Is(err, kv.ErrUnknown) && f.next != faultNone {
		f.next, f.after, f.dead = f.after, faultNone, f.dies
	}
	return err
}

// park runs a transaction and stops it before its first attempt to commit.
func (f *flaky) park(ctx context.Context, fn func(kv.Tx) error) error {
	parked := f.parked
	f.runs = 0
	return f.DB.Update(ctx, func(tx kv.Tx) error {
		noting := &notingTx{Tx: tx}
		err := fn(noting)
		if f.runs++; f.runs == 1 && err == nil && noting.wrote {
			f.parked = nil
			close(parked)
			<-f.resume
		}
		return err
	})
}

func (f *flaky) update(ctx context.Context, kind fault, fn func(kv.Tx) error) error {
	switch kind {
	case faultUnavailable:
		return fmt.Errorf("%w: says the test", kv.ErrUnavailable)
	case faultConflict:
		if _, err := f.abandon(ctx, fn); err != nil {
			return err
		}
	case faultLost:
		f.last = false
		wrote, err := f.abandon(ctx, fn)
		if err == nil && wrote {
			err = kv.ErrUnknown
		}
		return err
	case faultDone:
		var wrote bool
		err := f.DB.Update(ctx, func(tx kv.Tx) error {
			noting := &notingTx{Tx: tx}
			err := fn(noting)
			wrote = noting.wrote
			return err
		})
		if err == nil && wrote {
			f.last = true
			err = kv.ErrUnknown
		}
		return err
	case faultStraggle:
		return f.straggle(ctx, fn)
	}
	return f.DB.Update(ctx, fn)
}

// abandon runs fn, which has no effect.
func (f *flaky) abandon(ctx context.Context, fn func(kv.Tx) error) (wrote bool, err error) {
	err = f.DB.Update(ctx, func(tx kv.Tx) error {
		noting := &notingTx{Tx: tx}
		err := fn(noting)
		wrote = noting.wrote
		if err == nil {
			err = errAbandoned
		}
		return err
	})
	if errors.Is(err, errAbandoned) {
		err = nil
	}
	return wrote, err
}

func (f *flaky) straggle(ctx context.Context, fn func(kv.Tx) error) error {
	s := &straggler{ran: make(chan error, 1), release: make(chan struct{}), ended: make(chan struct{})}
	var wrote bool
	go func() {
		defer close(s.ended)
		err := f.DB.Update(context.WithoutCancel(ctx), func(tx kv.Tx) error {
			if s.runs++; s.runs > 1 {
				return errAbandoned
			}
			noting := &notingTx{Tx: tx}
			err := fn(noting)
			wrote = noting.wrote
			s.ran <- err
			<-s.release
			return err
		})
		if s.runs == 0 {
			s.ran <- err
		}
		s.late = err == nil && wrote
	}()
	if err := <-s.ran; err != nil || !wrote {
		close(s.release)
		<-s.ended
		return err
	}
	f.held = append(f.held, s)
	return kv.ErrUnknown
}

// letGo lets the stragglers commit, if they can.
func (f *flaky) letGo() {
	for _, s := range f.held {
		close(s.release)
		<-s.ended
		f.last = s.late
	}
	f.held = nil
}

func (f *flaky) View(ctx context.Context, fn func(kv.Reader) error) error {
	if f.dead {
		return kv.ErrClosed
	}
	if f.rng != nil && f.rng.IntN(1000) < f.rates[faultUnavailable] {
		return fmt.Errorf("%w: says the test", kv.ErrUnavailable)
	}
	return f.DB.View(ctx, fn)
}

// notingTx notes whether anything was written.
type notingTx struct {
	kv.Tx
	wrote bool
}

func (t *notingTx) Set(key, value []byte) {
	t.wrote = true
	t.Tx.Set(key, value)
}

func (t *notingTx) Clear(key []byte) {
	t.wrote = true
	t.Tx.Clear(key)
}

func (t *notingTx) ClearRange(begin, end []byte) {
	t.wrote = true
	t.Tx.ClearRange(begin, end)
}

func (t *notingTx) Add(key []byte, delta int64) {
	t.wrote = true
	t.Tx.Add(key, delta)
}

func (t *notingTx) Max(key []byte, value uint64) {
	t.wrote = true
	t.Tx.Max(key, value)
}
