package kvtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Machine is a store on the disk of a machine whose power can be cut.
type Machine struct {
	DB kv.DB

	// PowerLoss starts a machine with a possible content of this one's disk after a
	// power failure at this moment: all that was synced, and any part of the rest. It is
	// called once, while transactions run or after Close. This machine keeps running, but
	// its answers no longer count; the suite closes both stores.
	//
	// The suite finds more defects when syncs are slow, for instance because the disk
	// yields the processor before each one.
	PowerLoss func() Machine
}

// CrashHarness gives the suite access to an engine that keeps its rows on a disk.
type CrashHarness struct {
	// Open returns a machine with a store without rows.
	Open func(t testing.TB) Machine

	// Seed varies the random tests; every seed must pass. 0: a new one, which is logged.
	Seed uint64
}

// RunCrash tests an engine under power losses.
func RunCrash(t *testing.T, h CrashHarness) {
	h.Seed = seedOf(t, h.Seed)
	for _, c := range crashCases {
		t.Run(c.name, func(t *testing.T) { c.run(newCrashFixture(t, h)) })
	}
}

type crashCase struct {
	name string
	run  func(*crashFixture)
}

var crashCases = []crashCase{
	{"CommitsSurvive", testCommitsSurvive},
	{"CloseKeepsCommits", testCloseKeepsCommits},
	{"AnswersSurvive", testAnswersSurvive},
}

// crashFixture is a fixture whose store is on a machine.
type crashFixture struct {
	*fixture
	powerLoss func() Machine
}

func newCrashFixture(t testing.TB, h CrashHarness) *crashFixture {
	var powerLoss func() Machine
	f := newFixture(t, Harness{Seed: h.Seed, Open: func(t testing.TB) kv.DB {
		m := h.Open(t)
		powerLoss = m.PowerLoss
		return m.DB
	}})
	return &crashFixture{fixture: f, powerLoss: powerLoss}
}

// moveTo continues with another machine.
func (f *crashFixture) moveTo(m Machine) {
	f.Helper()
	if err := f.db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
		f.Errorf("Close on the machine that lost its power: %v", err)
	}
	f.db, f.powerLoss = m.DB, m.PowerLoss
}

// testCommitsSurvive cuts the power after each of some transactions.
func testCommitsSurvive(f *crashFixture) {
	rng := rand.New(rand.NewPCG(f.seed, 2))
	want := model{}
	for i := range 40 {
		var writes []op
		for range 1 + rng.IntN(6) {
			writes = append(writes, randomOp(rng, randomKey))
		}
		f.do(writes...)
		want.apply(writes...)
		f.moveTo(f.powerLoss())
		f.view(func(r kv.Reader) error {
			if err := want.compareAll(r); err != nil {
				return fmt.Errorf("seed %d: after commit %d and a power loss: %w", f.seed, i, err)
			}
			return nil
		})
	}
}

// testCloseKeepsCommits closes the store during transactions. Afterwards it has all
// committed writes and no others.
func testCloseKeepsCommits(f *crashFixture) {
	const workers = 4
	var (
		wg    sync.WaitGroup
		done  [workers]int
		errs  [workers]error
		going [workers]chan struct{}
	)
	for w := range workers {
		going[w] = make(chan struct{})
		wg.Go(func() {
			for errs[w] == nil {
				key := fmt.Sprintf("row/%d/%04d", w, done[w])
				errs[w] = f.db.Update(f.ctx, func(tx kv.Tx) error {
					tx.Set([]byte(key), []byte(key))
					tx.Add([]byte("count"), 1)
					return nil
				})
				if errs[w] == nil {
					done[w]++
				}
				if done[w] == 10 && errs[w] == nil {
					close(going[w])
				}
			}
		})
	}
	for _, c := range going {
		f.await(c, "ten commits of a worker")
	}
	if err := f.db.Close(); err != nil {
		f.Errorf("Close: %v", err)
	}
	wg.Wait()
	want := model{}
	for w := range workers {
		if !errors.Is(errs[w], kv.ErrClosed) {
			f.Errorf("Update during Close returned %v, expected ErrClosed", errs[w])
		}
		for i := range done[w] {
			key := fmt.Sprintf("row/%d/%04d", w, i)
			want.apply(set(key, key), add("count", 1))
		}
	}
	f.moveTo(f.powerLoss())
	f.expect(want)
}

// testAnswersSurvive cuts the power in the midst of concurrent transactions,
// right after one of them answered or while one runs.
func testAnswersSurvive(f *crashFixture) {
	for round := range 20 {
		rng := rand.New(rand.NewPCG(f.seed, uint64(round)))
		w := newCrashWorkload(f, rng)
		w.amidst = round%2 == 1
		f.moveTo(w.run())
		f.view(func(r kv.Reader) error {
			if err := w.check(r); err != nil {
				return fmt.Errorf("seed %d, round %d, after the power loss: %w", f.seed, round, err)
			}
			return nil
		})
	}
}

const (
	crashCounters = 3
	crashTokens   = 400
)

// crashWorkload runs when the power fails.
//
// A chain of transactions counts itself in one row; its number i notes itself under log/i and clears token i. So
// all effects of the chain follow from its length. Counters count blindly: each of their commits writes its number
// to several rows. Others look at all this, in every way that gives an answer.
type crashWorkload struct {
	f         *crashFixture
	seed      uint64
	lossAfter int         // commits until the power fails
	lost      atomic.Bool // whether the power has failed

	// The power fails either right after an answer to a reader that saw a commit for which its writer still waits,
	// or in the midst of a transaction, when others wait for a sync.
	amidst bool

	mu       sync.Mutex // guards the fields below
	commits  int
	answered crashAnswers
	attempts map[string]chainAttempt // by the note it leaves in the log
	machine  Machine                 // after the power loss
}

// crashAnswers is the state that the answers so far depend on.
type crashAnswers struct {
	chain    uint64 // transactions of the chain
	counters [crashCounters]uint64
}

// chainAttempt is a run of a closure that may have been committed.
type chainAttempt struct {
	writes   []op
	counters [crashCounters]uint64 // what it saw of the counters
}

func newCrashWorkload(f *crashFixture, rng *rand.Rand) *crashWorkload {
	f.Helper()
	tokens := make([]op, crashTokens)
	for i := range tokens {
		tokens[i] = set(tokenKey(uint64(i)), "x")
	}
	f.start(tokens...)
	return &crashWorkload{
		f:         f,
		seed:      rng.Uint64(),
		lossAfter: 10 + rng.IntN(90),
		attempts:  map[string]chainAttempt{},
	}
}

func tokenKey(i uint64) string { return fmt.Sprintf("token/%04d", i) }
func logKey(i uint64) string   { return fmt.Sprintf("log/%04d", i) }
func copyKey(i uint64) string  { return fmt.Sprintf("copy/%04d", i) }

// counterKeys are the rows of a counter, far apart from each other.
func counterKeys(counter int) []string {
	return []string{fmt.Sprintf("a/%d", counter), fmt.Sprintf("m/%d", counter), fmt.Sprintf("z/%d", counter)}
}

// run works until the power fails and returns the machine that is left.
func (w *crashWorkload) run() Machine {
	w.f.Helper()
	var (
		wg   sync.WaitGroup
		errs = make([]error, 8)
	)
	for i := range errs {
		rng := rand.New(rand.NewPCG(w.seed, uint64(i)))
		wg.Go(func() {
			for n := uint64(1); errs[i] == nil && !w.lost.Load(); n++ {
				var seen crashAnswers
				switch {
				case i < crashCounters:
					seen, errs[i] = w.count(i, n)
				case i < crashCounters+2:
					seen, errs[i] = w.chain(fmt.Sprintf("%d.%d", i, n), rng)
				default:
					seen, errs[i] = w.look(rng)
				}
				if errs[i] == nil {
					w.answer(seen, i >= crashCounters+2)
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		w.f.Fatalf("seed %d: a transaction failed: %v", w.f.seed, err)
	}
	return w.machine
}

// answer notes an answer, and may cut the power. Answers given while the power fails may rest on lost data, so none
// is noted until the power failure is over, or afterwards.
func (w *crashWorkload) answer(seen crashAnswers, looked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost.Load() {
		return
	}
	news := seen.chain > w.answered.chain
	w.answered.chain = max(w.answered.chain, seen.chain)
	for counter := range seen.counters {
		news = news || seen.counters[counter] > w.answered.counters[counter]
		w.answered.counters[counter] = max(w.answered.counters[counter], seen.counters[counter])
	}
	if !looked {
		w.commits++
	}
	if !w.amidst && looked && news || w.commits >= 2*w.lossAfter {
		w.cutPower()
	}
}

// cutPower cuts the power if it is time to. The caller holds the lock.
func (w *crashWorkload) cutPower() {
	if w.commits >= w.lossAfter && !w.lost.Load() {
		w.machine = w.f.powerLoss()
		w.lost.Store(true)
	}
}

// count commits the n-th transaction of a counter.
func (w *crashWorkload) count(counter int, n uint64) (seen crashAnswers, err error) {
	padding := ""
	if counter == 0 {
		padding = strings.Repeat("x", 30_000) // more than a block of a log
	}
	seen.counters[counter] = n
	err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error {
		for _, key := range counterKeys(counter) {
			tx.Set([]byte(key), []byte(integer(n)+padding))
		}
		return nil
	})
	return seen, err
}

// chain commits the next transaction of the chain.
func (w *crashWorkload) chain(name string, rng *rand.Rand) (seen crashAnswers, err error) {
	run := 0
	err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error {
		run++
		count, err := readInteger(tx.Get([]byte("count")))
		if err != nil {
			return err
		}
		if count == crashTokens {
			return errors.New("the chain has run out of tokens")
		}
		note := fmt.Sprintf("%s.%d", name, run)
		attempt := chainAttempt{writes: []op{
			setInteger("count", count+1),
			set(logKey(count), note),
			clearKey(tokenKey(count)),
			add("sum", int64(count)),
			raise("highest", count),
			set(fmt.Sprintf("data/%02d", rng.IntN(20)), note),
			clearKey(fmt.Sprintf("data/%02d", rng.IntN(20))),
		}}
		attempt.writes = append(attempt.writes, set(copyKey(count), note))
		if count%8 == 7 {
			attempt.writes = append(attempt.writes, clearRange(copyKey(count-5), copyKey(count)))
		}
		for counter := range attempt.counters {
			attempt.counters[counter], err = readInteger(tx.Snapshot().Get([]byte(counterKeys(counter)[0])))
			if err != nil {
				return err
			}
		}
		w.mu.Lock()
		w.attempts[note] = attempt
		if w.amidst {
			w.cutPower()
		}
		w.mu.Unlock()
		for _, write := range attempt.writes {
			write.apply(tx)
		}
		seen = crashAnswers{chain: count + 1, counters: attempt.counters}
		return nil
	})
	return seen, err
}

// look reads in some way and returns the state that the answer depends on.
func (w *crashWorkload) look(rng *rand.Rand) (seen crashAnswers, err error) {
	how, what := rng.IntN(6), rng.IntN(4)
	own := errors.New("own")
	read := func(r kv.Reader) (err error) {
		seen, err = lookAt(r, what)
		return err
	}
	switch how {
	case 0:
		err = w.f.db.View(w.f.ctx, read)
	case 1:
		err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error { return read(tx) })
	case 2:
		err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error { return read(tx.Snapshot()) })
	case 3:
		err = w.f.db.View(w.f.ctx, func(r kv.Reader) error { return errors.Join(read(r), own) })
	case 4:
		err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error { return errors.Join(read(tx), own) })
	case 5:
		err = w.f.db.Update(w.f.ctx, func(tx kv.Tx) error {
			tx.Set([]byte("data/never"), nil)
			return errors.Join(read(tx.Snapshot()), own)
		})
	}
	if errors.Is(err, own) {
		err = nil
	}
	return seen, err
}

func lookAt(r kv.Reader, what int) (seen crashAnswers, err error) {
	switch what {
	case 0:
		seen.chain, err = readInteger(r.Get([]byte("count")))
	case 1:
		// The first remaining token tells that the earlier ones are gone.
		var pairs []kv.Pair
		pairs, err = r.Range([]byte("token/"), []byte("token0"), kv.RangeOptions{Limit: 1})
		if err == nil && len(pairs) > 0 {
			_, err = fmt.Sscanf(string(pairs[0].Key), "token/%d", &seen.chain)
		}
	case 2:
		var pairs []kv.Pair
		pairs, err = r.Range([]byte("log/"), []byte("log0"), kv.RangeOptions{Limit: 1, Reverse: true})
		if err == nil && len(pairs) > 0 {
			_, err = fmt.Sscanf(string(pairs[0].Key), "log/%d", &seen.chain)
			seen.chain++
		}
	case 3:
		var keys [][]byte
		for counter := range crashCounters {
			keys = append(keys, []byte(counterKeys(counter)[2]))
		}
		var values [][]byte
		values, err = r.GetAll(keys)
		for counter, value := range values {
			seen.counters[counter] = kv.DecodeInteger(value)
		}
	}
	return seen, err
}

// check compares the rows that are left with the answers, and with each other.
func (w *crashWorkload) check(r kv.Reader) error {
	var counters [crashCounters]uint64
	want := model{}
	for counter := range counters {
		keys := counterKeys(counter)
		for i, key := range keys {
			value, err := r.Get([]byte(key))
			if err != nil {
				return err
			}
			n := kv.DecodeInteger(value)
			if i > 0 && n != counters[counter] {
				return fmt.Errorf("half of a transaction is left: %s comes from number %d of its counter, %s from %d", keys[0], counters[counter], key, n)
			}
			counters[counter] = n
			if value != nil {
				want[key] = string(value)
			}
		}
		if answered := w.answered.counters[counter]; counters[counter] < answered {
			return fmt.Errorf("counter %d got to %d, but an answer rested on %d", counter, counters[counter], answered)
		}
	}

	count, err := readInteger(r.Get([]byte("count")))
	if err != nil {
		return err
	}
	if count < w.answered.chain {
		return fmt.Errorf("the chain got to %d, but an answer rested on %d", count, w.answered.chain)
	}
	for i := range uint64(crashTokens) {
		want.apply(set(tokenKey(i), "x"))
	}
	notes, err := r.Range([]byte("log/"), []byte("log0"), kv.RangeOptions{Limit: crashTokens + 1})
	if err != nil {
		return err
	}
	for _, pair := range notes {
		attempt, known := w.attempts[string(pair.Value)]
		if !known {
			return fmt.Errorf("%s holds a note of nobody: %s", pair.Key, show(pair.Value))
		}
		for counter, saw := range attempt.counters {
			if counters[counter] < saw {
				return fmt.Errorf("counter %d got to %d, but transaction %s, which is left, saw %d of it", counter, counters[counter], pair.Key, saw)
			}
		}
		want.apply(attempt.writes...)
	}
	return want.compareAll(r)
}
