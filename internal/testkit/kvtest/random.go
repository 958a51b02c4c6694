package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Random transactions, one after the other, against the model.
var randomCases = []testCase{
	{name: "RandomOperations", run: testRandomOperations},
}

func testRandomOperations(f *fixture) {
	const transactions = 400
	rng := rand.New(rand.NewPCG(f.seed, 1))
	committed := model{}
	abort := errors.New("this one is not to be committed")
	for i := range transactions {
		script := randomScript(rng)
		unwanted := rng.IntN(6) == 0
		var own model
		err := f.db.Update(f.ctx, func(tx kv.Tx) error {
			own = committed.clone()
			for j, step := range script {
				if err := step.run(tx, own); err != nil {
					return fmt.Errorf("seed %d, transaction %d: %w, after %v on %v", f.seed, i, err, script[:j], committed)
				}
			}
			if unwanted {
				return abort
			}
			return nil
		})
		if unwanted && err == abort {
			own = committed
		} else if err != nil {
			f.Fatal(err)
		}
		f.view(func(r kv.Reader) error {
			if err := own.compareAll(r); err != nil {
				return fmt.Errorf("seed %d, after transaction %d (aborted: %t), %v on %v: %w", f.seed, i, unwanted, script, committed, err)
			}
			return nil
		})
		committed = own
		if len(committed) > 60 {
			f.start()
			committed = model{}
		}
	}
}

// step is a write or a read of a random transaction.
type step struct {
	write *op

	// A read of keys, if there are any, and else of a range.
	keys       []string
	begin, end string
	opts       kv.RangeOptions
	snapshot   bool
	ahead      bool // only say that the read follows
}

func (s step) String() string {
	switch {
	case s.write != nil:
		return s.write.String()
	case s.ahead && len(s.keys) > 0:
		return fmt.Sprintf("Prefetch(%q)", s.keys)
	case s.ahead:
		return fmt.Sprintf("PrefetchRange(%q, %q, %+v)", s.begin, s.end, s.opts)
	case len(s.keys) > 0:
		return fmt.Sprintf("Get(%q)", s.keys)
	default:
		return fmt.Sprintf("Range(%q, %q, %+v)", s.begin, s.end, s.opts)
	}
}

// run does the step on both and returns an error if they disagree.
func (s step) run(tx kv.Tx, m model) error {
	if s.write != nil {
		s.write.apply(tx)
		m.apply(*s.write)
		return nil
	}
	if s.ahead {
		s.prefetch(tx)
		return nil
	}
	var r kv.Reader = tx
	if s.snapshot {
		r = tx.Snapshot()
	}
	if len(s.keys) > 0 {
		return m.compareGet(r, s.keys...)
	}
	return m.compareRange(r, s.begin, s.end, s.opts)
}

// prefetch announces the reads of the step, in buffers that it overwrites afterwards.
func (s step) prefetch(tx kv.Tx) {
	if len(s.keys) > 0 {
		for _, key := range s.keys {
			b := []byte(key)
			tx.Prefetch(b)
			scribble(b)
		}
		return
	}
	begin, end := []byte(s.begin), []byte(s.end)
	tx.PrefetchRange(begin, end, s.opts)
	scribble(begin)
	scribble(end)
}

// randomScript returns the steps of a transaction. It announces some reads earlier, with other steps in between.
func randomScript(rng *rand.Rand) []step {
	script := randomSteps(rng)
	for i := len(script) - 1; i >= 0; i-- {
		if s := script[i]; s.write == nil && rng.IntN(2) == 0 {
			s.ahead = true
			if len(s.keys) == 0 && rng.IntN(3) == 0 {
				s.opts = kv.RangeOptions{Limit: 1 + rng.IntN(2), Reverse: rng.IntN(2) == 0} // not as it is read then
			}
			script = slices.Insert(script, rng.IntN(i+1), s)
		}
	}
	return script
}

func randomSteps(rng *rand.Rand) []step {
	script := make([]step, 1+rng.IntN(14))
	for i := range script {
		s := step{snapshot: rng.IntN(3) == 0}
		switch rng.IntN(5) {
		case 0, 1, 2:
			write := randomOp(rng, randomKey)
			s.write = &write
		case 3:
			for range 1 + rng.IntN(3) {
				s.keys = append(s.keys, randomKey(rng))
			}
		default:
			s.begin, s.end = randomKey(rng), randomKey(rng)
			if rng.IntN(3) == 0 {
				s.end = everything
			}
			s.opts = kv.RangeOptions{Limit: 1 + rng.IntN(5), Reverse: rng.IntN(2) == 0}
			if rng.IntN(3) == 0 {
				s.opts.MaxBytes = 1 + rng.IntN(30)
			}
			if rng.IntN(3) == 0 {
				s.opts.Limit = 1000
			}
		}
		script[i] = s
	}
	return script
}
