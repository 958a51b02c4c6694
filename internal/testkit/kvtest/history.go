package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Concurrent transactions leave a history, and there must be an order that
// explains it.
var historyCases = []testCase{
	{name: "Replay", run: testReplay},
	{name: "Serializable", run: testSerializable},
	{name: "Bank", run: testBank},
}

// clock orders calls in real time: a call that ended at a lower reading than another began came before it.
type clock struct{ atomic.Int64 }

func (c *clock) tick() int64 { return c.Add(1) }

// work runs the jobs 0 to n-1 on several goroutines, and fails the test when one
// of them returns an error.
func (f *fixture) work(workers, n int, job func(i int) error) {
	f.Helper()
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := job(i); err != nil {
					once.Do(func() { first = fmt.Errorf("job %d: %w", i, err) })
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	if first != nil {
		f.Fatalf("seed %d: %v", f.seed, first)
	}
}

// yield lets others run, up to a few times.
func yield(rng *rand.Rand) {
	for range rng.IntN(4) {
		runtime.Gosched()
	}
}

// observation is a step of a transaction and what it returned.
type observation struct {
	step   step
	result string
}

// observe runs a read and returns its result as text.
func (s step) observe(r kv.Reader) (string, error) {
	var text strings.Builder
	if len(s.keys) > 0 {
		var keys [][]byte
		for _, key := range s.keys {
			keys = append(keys, []byte(key))
		}
		values, err := r.GetAll(keys)
		for _, value := range values {
			if value == nil {
				text.WriteString(" nothing")
			} else {
				text.WriteString(" " + show(value))
			}
		}
		return text.String(), err
	}
	pairs, err := r.Range([]byte(s.begin), []byte(s.end), s.opts)
	for _, pair := range pairs {
		text.WriteString(" " + show(pair.Key) + "=" + show(pair.Value))
	}
	return text.String(), err
}

// recordedTx is a transaction that read the row that counts transactions, and
// incremented it if it wrote.
type recordedTx struct {
	begin, end int64
	base       uint64 // transactions before this one
	wrote      bool
	seen       []observation
}

// testReplay makes all transactions count themselves in one row, so their order is known. Then it runs them again
// on the model, where every read must return the same as before.
func testReplay(f *fixture) {
	const transactions = 300
	var (
		now     clock
		mu      sync.Mutex
		history []recordedTx
	)
	unwanted := errors.New("not to be committed")
	f.work(6, transactions, func(i int) error {
		rng := rand.New(rand.NewPCG(f.seed, uint64(i)))
		script := randomScript(rng)
		kind := rng.IntN(8)
		var t recordedTx
		run := func(r kv.Reader) (err error) {
			t.seen = t.seen[:0]
			if t.base, err = readInteger(r.Get([]byte("seq"))); err != nil {
				return err
			}
			for _, s := range script {
				yield(rng)
				if s.write != nil {
					if kind > 1 {
						s.write.apply(r.(kv.Tx))
						t.seen = append(t.seen, observation{step: s})
					}
					continue
				}
				from := r
				if s.snapshot && kind > 0 {
					from = r.(kv.Tx).Snapshot()
				}
				result, err := s.observe(from)
				if err != nil {
					return err
				}
				t.seen = append(t.seen, observation{s, result})
			}
			return nil
		}
		var err error
		t.begin = now.tick()
		switch kind {
		case 0:
			err = f.db.View(f.ctx, run)
		case 1:
			err = f.db.Update(f.ctx, func(tx kv.Tx) error { return run(tx) })
		case 2:
			err = f.db.Update(f.ctx, func(tx kv.Tx) error { return errors.Join(run(tx), unwanted) })
			if errors.Is(err, unwanted) {
				err = nil
			}
		default:
			t.wrote = true
			err = f.db.Update(f.ctx, func(tx kv.Tx) error {
				if err := run(tx); err != nil {
					return err
				}
				tx.Set([]byte("seq"), kv.EncodeInteger(t.base+1))
				return nil
			})
		}
		t.end = now.tick()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, t)
		return err
	})
	f.expect(f.replay(history))
}

// replay checks a history and returns the state it leads to.
func (f *fixture) replay(history []recordedTx) model {
	f.Helper()
	// Transactions that only read the state after n transactions come before the transaction that changes it.
	slices.SortFunc(history, func(a, b recordedTx) int {
		switch {
		case a.base != b.base:
			return int(a.base) - int(b.base)
		case a.wrote == b.wrote:
			return 0
		case b.wrote:
			return -1
		}
		return 1
	})
	state, count := model{}, uint64(0)
	for i, t := range history {
		if t.base != count {
			f.Fatalf("seed %d: a transaction read the state after %d transactions, but number %d was committed twice or not at all", f.seed, t.base, count+1)
		}
		own := state.clone()
		for _, o := range t.seen {
			if o.step.write != nil {
				own.apply(*o.step.write)
				continue
			}
			want, _ := o.step.observe(own)
			if o.result != want {
				f.Fatalf("seed %d: on the state after %d transactions, %v read%s\nexpected%s\nin %v", f.seed, count, o.step, o.result, want, t.seen)
			}
		}
		if t.wrote {
			count++
			own.apply(setInteger("seq", count))
			state = own
		}
		for _, later := range history[i+1:] {
			same := later.base == t.base && !later.wrote && !t.wrote
			if later.end < t.begin && !same {
				f.Fatalf("seed %d: a transaction read the state after %d others although one had ended before it that read the state after %d (and wrote: %t)", f.seed, t.base, later.base, later.wrote)
			}
		}
	}
	return state
}

// The sum of the accounts of testBank never changes.
const (
	bankAccounts = 8
	bankTotal    = 100
)

// testBank moves money between accounts. Accounts without money have no row.
func testBank(f *fixture) {
	const transfers = 200
	account := func(i int) string { return fmt.Sprintf("account/%d", i) }
	f.start(setInteger(account(0), bankTotal))
	f.work(6, transfers, func(i int) error {
		rng := rand.New(rand.NewPCG(f.seed, uint64(i)))
		if i%5 == 0 {
			return f.db.View(f.ctx, func(r kv.Reader) error { return audit(r, rng) })
		}
		from, to := rng.IntN(bankAccounts), rng.IntN(bankAccounts-1)
		if to >= from {
			to++
		}
		return f.db.Update(f.ctx, func(tx kv.Tx) error {
			if i%5 == 1 {
				if err := audit(tx, rng); err != nil {
					return err
				}
			}
			have, err := readInteger(tx.Get([]byte(account(from))))
			if err != nil || have == 0 {
				return err
			}
			amount := 1 + rng.Uint64N(have)
			yield(rng)
			if amount == have {
				tx.Clear([]byte(account(from)))
			} else {
				tx.Set([]byte(account(from)), kv.EncodeInteger(have-amount))
			}
			if i%2 == 0 {
				tx.Add([]byte(account(to)), int64(amount))
				return nil
			}
			there, err := readInteger(tx.Get([]byte(account(to))))
			tx.Set([]byte(account(to)), kv.EncodeInteger(there+amount))
			return err
		})
	})
	f.view(func(r kv.Reader) error { return audit(r, rand.New(rand.NewPCG(f.seed, transfers))) })
}

// audit adds up the accounts in pages of random size and direction.
func audit(r kv.Reader, rng *rand.Rand) error {
	sum := uint64(0)
	opts := kv.RangeOptions{Limit: 1 + rng.IntN(bankAccounts), Reverse: rng.IntN(2) == 0}
	from, to := []byte("account/"), []byte("account0")
	for {
		pairs, err := r.Range(from, to, opts)
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			sum += kv.DecodeInteger(pair.Value)
		}
		if len(pairs) < opts.Limit {
			break
		}
		if last := pairs[len(pairs)-1].Key; opts.Reverse {
			to = last
		} else {
			from = append(last, 0)
		}
		yield(rng)
	}
	if sum != bankTotal {
		return fmt.Errorf("the accounts hold %d together, expected %d", sum, bankTotal)
	}
	return nil
}
