package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
)

// Each reason why nothing was found is reported.
func TestReasons(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		expect := func(want fdbpq.Reason) {
			t.Helper()
			f.view(func(r kv.Reader) error {
				found, err := f.Queue("q").Peek(r, fdbpq.Selection{Limit: 1})
				if found.Reason != want || len(found.Items) > 0 {
					t.Errorf("a peek finds %d items, reason %q, expected %q", len(found.Items), found.Reason, want)
				}
				return err
			})
			for _, popped := range []fdbpq.Popped{f.pop("q", fdbpq.Max, 1), f.lease("q", fdbpq.Min, 1, time.Minute)} {
				if popped.Reason != want || len(popped.Items) > 0 {
					t.Errorf("a pop gets %d items, reason %q, expected %q", len(popped.Items), popped.Reason, want)
				}
			}
		}
		expect(fdbpq.ReasonUnknown)
		f.configure("q", `{}`)
		expect(fdbpq.ReasonEmpty)
		f.push("q", fdbpq.NewItem{Delay: time.Hour})
		expect(fdbpq.ReasonDelayed)
		f.pushed("q", 0, "one")
		f.leaseOne("q", time.Hour)
		expect(fdbpq.ReasonLeased)
		f.update(f.Queue("q").Pause)
		f.pushed("q", 0, "two")
		expect(fdbpq.ReasonPaused)
		f.update(f.Queue("q").Resume)
		if got := payloads(f.pop("q", fdbpq.Min, 1).Items); len(got) != 1 {
			t.Errorf("took %q after the pause", got)
		}
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Delete(tx)
			return err
		})
		expect(fdbpq.ReasonUnknown)
	})
}

// Where items are ready outside of the band and none is in it, that is the reason, whatever is leased or delayed. Otherwise it
// is that of the queue.
func TestReasonsOfABand(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		sel := fdbpq.Selection{Band: &fdbpq.Band{Low: 3, High: 7}, Limit: 1}
		peeks := func(queue string, want fdbpq.Reason, outside int64) {
			t.Helper()
			f.view(func(r kv.Reader) error {
				found, err := f.Queue(queue).Peek(r, sel)
				if found.Reason != want || found.Ready != outside {
					t.Errorf("a peek says %q, %d ready; expected %q, %d", found.Reason, found.Ready, want, outside)
				}
				return err
			})
		}
		pops := func(queue string, want fdbpq.Reason, outside int64) {
			t.Helper()
			f.update(func(tx kv.Tx) error {
				popped, err := f.Queue(queue).Lease(tx, sel, time.Hour)
				if popped.Reason != want || popped.Ready != outside {
					t.Errorf("a pop says %q, %d ready; expected %q, %d", popped.Reason, popped.Ready, want, outside)
				}
				return err
			})
		}
		expect := func(queue string, want fdbpq.Reason, outside int64) {
			t.Helper()
			peeks(queue, want, outside)
			pops(queue, want, outside)
		}
		f.push("q", fdbpq.NewItem{Delay: time.Hour})
		f.pushed("q", 1, "ready")
		expect("q", fdbpq.ReasonBand, 1)
		f.pushed("q", 0, "leased")
		f.leaseOne("q", time.Hour)
		f.pushed("q", 8, "beyond the other end")
		expect("q", fdbpq.ReasonBand, 2)
		f.push("q", fdbpq.NewItem{Priority: 5, HasPriority: true, TTL: time.Second})
		f.pass(time.Second)
		peeks("q", fdbpq.ReasonEmpty, 0) // it is in the band, and past its TTL
		pops("q", fdbpq.ReasonBand, 2)   // it has removed that
		f.pop("q", fdbpq.Min, 2)
		expect("q", fdbpq.ReasonLeased, 0)

		f.push("keys", fdbpq.NewItem{Key: "k", Priority: 1, HasPriority: true})
		expect("keys", fdbpq.ReasonBand, 1)

		f.configure("rate", `{"rate":"1/1h"}`)
		f.pushed("rate", 1, "one", "two")
		f.pop("rate", fdbpq.Min, 1)
		expect("rate", fdbpq.ReasonRate, 0)
	})
}

// Pushes, pops and settlements of several queues in one transaction with rows of the
// program's own.
func TestComposition(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("in", 0, "work")
		leased := f.leaseOne("in", time.Minute)
		step := func(fail error) error {
			session := f.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte("\xfeown"), []byte("data"))
				if _, err := f.Queue("out").Push(tx, fdbpq.NewItem{Payload: []byte("receipt")}, fdbpq.NewItem{Payload: []byte("for now")}); err != nil {
					return err
				}
				popped, err := f.Queue("out").Pop(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1})
				if err != nil {
					return err
				}
				if got := payloads(popped.Items); len(got) != 1 || got[0] != "for now" || popped.Ready != 1 {
					return fmt.Errorf("the transaction returns %q of its own pushes, %d are left", got, popped.Ready)
				}
				if _, err := f.Queue("in").Ack(tx, *leased.Lease); err != nil {
					return err
				}
				return fail
			})
		}
		own := errors.New("own")
		if err := step(own); err != own {
			t.Fatalf("Update returned %v, expected the closure's error", err)
		}
		if in, out := f.counts("in"), f.counts("out"); in.Leased != 1 || out.Length() != 0 {
			t.Errorf("a transaction that failed left %+v and %+v", in, out)
		}
		if err := step(nil); err != nil {
			t.Fatal(err)
		}
		if in, out := f.counts("in"), f.counts("out"); in.Length() != 0 || out.Ready != 1 {
			t.Errorf("the transaction left %+v and %+v", in, out)
		}
		f.update(func(tx kv.Tx) error {
			tx.Clear([]byte("\xfeown"))
			return nil
		})
	})
}

// A pop reads the head without depending on it: pushes before or behind it do not make it
// run again. The recipe's pop does.
func TestPopDoesNotConflictWithPush(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		for _, c := range []struct {
			what string
			pop  func(kv.Tx, fdbpq.Selection) (fdbpq.Popped, error)
			runs int
		}{{"Pop", f.Queue("q").Pop, 1}, {"recipe.Plain", func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) { return recipe.Plain(f.Queue("q"), tx, sel) }, 2}} {
			f.pushed("q", 0, "one", "two", "three")
			runs := 0
			var popped fdbpq.Popped
			f.update(func(tx kv.Tx) (err error) {
				runs++
				if popped, err = c.pop(tx, fdbpq.Selection{Limit: 1}); err != nil {
					return err
				}
				if runs == 1 {
					other.pushed("q", -1, "more urgent")
					other.pushed("q", 1, "less urgent")
				}
				return nil
			})
			if runs != c.runs || len(popped.Items) != 1 {
				t.Errorf("%s ran %d times next to a push, expected %d", c.what, runs, c.runs)
			}
		}
	})
}

// readRows counts the rows that ranges return.
type readRows struct {
	kv.Tx
	rows int
}

func (r *readRows) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Tx.Range(begin, end, opts)
	r.rows += len(pairs)
	return pairs, err
}

func (r *readRows) Snapshot() kv.Reader { return &snapshotRows{r.Tx.Snapshot(), r} }

type snapshotRows struct {
	kv.Reader
	of *readRows
}

func (s *snapshotRows) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := s.Reader.Range(begin, end, opts)
	s.of.rows += len(pairs)
	return pairs, err
}

// Leased and delayed items do not slow down reads of the head.
func TestHeadIsNotSlowed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for range 2 {
			f.fill("q", 1000, fdbpq.NewItem{Priority: -1, HasPriority: true})
			f.lease("q", fdbpq.Min, 1000, time.Hour)
			f.fill("q", 1000, fdbpq.NewItem{Priority: -1, HasPriority: true, Delay: time.Hour})
		}
		f.pushed("q", 0, "one", "two")
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			f.update(func(tx kv.Tx) error {
				counted := &readRows{Tx: tx}
				popped, err := f.Queue("q").Pop(counted, fdbpq.Selection{End: end, Limit: 1})
				if len(popped.Items) != 1 || counted.rows > 2 {
					t.Errorf("a pop of %d items read %d rows", len(popped.Items), counted.rows)
				}
				return err
			})
		}
	})
}
