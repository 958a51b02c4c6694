package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

var (
	seeds = flag.Int("pq.seeds", 2, "how many runs of the simulation")
	seed  = flag.Uint64("pq.seed", 1, "the seed of the first run")
)

// TestSimulation runs three members for half a minute of virtual time on a log that loses
// answers, lands appends late, refuses without need and is behind at times, while
// members are killed, lose what their disks had not synced, are paused and cut off.
// Clients count in one row and note what they got; what they saw must be one order of
// their transactions that agrees with the time.
//
// In half of the runs the log loses its end, or all, once or twice, and an operator recovers
// it. Then the order may lack what no copy had that was left.
//
// The seed chooses all faults, but not which goroutine runs first, so a failing seed may
// need a few runs.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for i := range *seeds {
		seed := *seed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, 3)
	defer w.end()
	defer func() {
		if t.Failed() {
			t.Logf("go test ./fdbpq/kv/cluster -run TestSimulation -pq.seeds=1 -pq.seed=%d", seed)
		}
	}()
	w.log.Entry = 600 // some transactions need several records
	if rng.IntN(2) == 0 {
		w.log.MaxBytes = 100_000 // the log forgets a lot, and members need checkpoints
	}
	chance := []float64{0, 0.01, 0.05, 0.2}[rng.IntN(4)]
	for _, n := range w.nodes {
		n.faults.rng, n.faults.chance = rand.New(rand.NewPCG(seed, uint64(n.name[0]))), chance
		n.start()
	}
	t.Logf("seed %d: chance %v", seed, chance)

	h := &history{}
	lasts, disasters := 30*time.Second, plannedDisasters(rand.New(rand.NewPCG(seed, 1)))
	if len(disasters.after) > 0 {
		lasts = 80 * time.Second
	}
	ctx, stop := context.WithTimeout(context.Background(), lasts)
	defer stop()
	var clients sync.WaitGroup
	for c := range 4 {
		n := w.nodes[c%len(w.nodes)]
		client := client{node: n, history: h, name: fmt.Sprint("client ", c), rng: rand.New(rand.NewPCG(seed, uint64(100+c)))}
		clients.Go(func() { client.work(ctx) })
	}
	clients.Go(func() { w.trouble(ctx, rng, disasters) })
	clients.Wait()
	if h.written() == 0 {
		t.Errorf("seed %d: nothing was written", seed)
	}
	w.follow()
	w.settle()
	h.check(w)
}

// disasters are when the log is lost.
type disasters struct {
	rng   *rand.Rand
	after []time.Duration // since the beginning, or the end of the one before
}

// plannedDisasters are none, one or two.
func plannedDisasters(rng *rand.Rand) disasters {
	d := disasters{rng: rng}
	for range max(0, rng.IntN(4)-1) {
		d.after = append(d.after, 5*time.Second+time.Duration(rng.Int64N(int64(15*time.Second))))
	}
	return d
}

// trouble kills, pauses and cuts off members, and has the log lost, until ctx ends.
func (w *world) trouble(ctx context.Context, rng *rand.Rand, lost disasters) {
	began := time.Now()
	for rest(ctx, time.Duration(rng.Int64N(int64(8*time.Second)))) == nil {
		if len(lost.after) > 0 && time.Since(began) > lost.after[0] {
			w.disaster(lost.rng)
			began, lost.after = time.Now(), lost.after[1:]
			continue
		}
		if lost.rng.IntN(8) == 0 {
			limited, cancel := context.WithTimeout(ctx, 30*time.Second)
			w.recoverWithoutNeed(limited, w.nodes[lost.rng.IntN(len(w.nodes))])
			cancel()
			continue
		}
		n := w.nodes[rng.IntN(len(w.nodes))]
		for _, o := range w.nodes {
			if member := o.up(); member != nil && member.Status().Role == "active" && rng.IntN(2) == 0 {
				n = o
			}
		}
		away := time.Duration(rng.Int64N(int64(6 * time.Second)))
		switch rng.IntN(5) {
		case 0, 1:
			n.kill(rng)
			_ = rest(ctx, away)
			n.start()
		case 2:
			release := n.faults.hold()
			_ = rest(ctx, away)
			release()
		case 3:
			n.faults.set(func(f *faults) { f.deaf = true })
			_ = rest(ctx, away)
			n.faults.set(func(f *faults) { f.deaf = false })
		case 4:
			if member := n.up(); member != nil {
				limited, cancel := context.WithTimeout(ctx, away)
				_ = member.Release(limited, w.names[rng.IntN(len(w.names))]) // it may not be active
				cancel()
			}
		}
	}
}

// client works on the terms of one member.
type client struct {
	*history
	node *node
	name string
	rng  *rand.Rand
}

func (c client) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; {
		member := c.node.up()
		if member == nil {
			_ = rest(ctx, 50*time.Millisecond)
			continue
		}
		term := member.Current()
		if term == nil {
			_ = rest(ctx, 20*time.Millisecond)
			continue
		}
		n++
		op := counted{began: time.Now(), member: c.node.name, epoch: term.Epoch()}
		limit, cancel := context.WithTimeout(ctx, time.Duration(1+c.rng.IntN(3000))*time.Millisecond)
		switch c.rng.IntN(3) {
		case 0:
			c.read(limit, term, op)
		default:
			op.note = fmt.Sprintf("%s/%d/%0*d", c.name, n, 1+c.rng.IntN(900), 0)
			c.count(limit, term, op)
		}
		cancel()
		_ = rest(ctx, time.Duration(c.rng.IntN(60))*time.Millisecond)
	}
}

// counted is one operation of a client, and what it saw.
type counted struct {
	began, ended time.Time
	member       string // that ran it
	epoch        uint64
	note         string // what it wrote; "" for reads
	value        uint64
	err          error
}

// history is all operations of all clients.
type history struct {
	mu  sync.Mutex
	all []counted
}

func (h *history) add(op counted) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op.ended = time.Now()
	h.all = append(h.all, op)
}

func (h *history) written() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.all {
		if op.note != "" && op.err == nil {
			n++
		}
	}
	return n
}

var counterKey, blindKey = []byte("counter"), []byte("blind")

func noteKey(n uint64) []byte { return fmt.Appendf(nil, "note/%08d", n) }

// count adds one to the counter and leaves a note of it.
func (h *history) count(ctx context.Context, db kv.DB, op counted) {
	op.err = db.Update(ctx, func(tx kv.Tx) error {
		value, err := tx.Get(counterKey)
		if err != nil {
			return err
		}
		op.value = kv.DecodeInteger(value) + 1
		tx.Set(counterKey, kv.EncodeInteger(op.value))
		tx.Set(noteKey(op.value), []byte(op.note))
		tx.Add(blindKey, 1)
		return nil
	})
	h.add(op)
}

func (h *history) read(ctx context.Context, db kv.DB, op counted) {
	op.err = db.View(ctx, func(r kv.Reader) error {
		rows, err := r.GetAll([][]byte{counterKey, blindKey})
		if err != nil {
			return err
		}
		op.value = kv.DecodeInteger(rows[0])
		if blind := kv.DecodeInteger(rows[1]); blind != op.value {
			return fmt.Errorf("the counters are %d and %d", op.value, blind)
		}
		return nil
	})
	h.add(op)
}

// check compares what clients saw with what is there.
func (h *history) check(w *world) {
	w.Helper()
	_, term := w.active()
	var last, epoch uint64
	notes := make(map[string]uint64)
	epochs := make(map[string]uint64)
	for _, op := range h.all {
		epochs[op.note] = op.epoch
	}
	err := term.View(context.Background(), func(r kv.Reader) error {
		value, err := r.Get(counterKey)
		if err != nil {
			return err
		}
		last = kv.DecodeInteger(value)
		if value, err = r.Get(blindKey); err != nil {
			return err
		}
		if blind := kv.DecodeInteger(value); blind != last {
			return fmt.Errorf("the counters are %d and %d", last, blind)
		}
		rows, err := r.Range([]byte("note/"), []byte("note0"), kv.RangeOptions{Limit: 1 << 20})
		for i, row := range rows {
			if string(row.Key) != string(noteKey(uint64(i)+1)) {
				return fmt.Errorf("note %d is %s", i+1, row.Key)
			}
			if notes[string(row.Value)] != 0 {
				return fmt.Errorf("%.40s counted twice", row.Value)
			}
			notes[string(row.Value)] = uint64(i) + 1
			if e := epochs[string(row.Value)]; e < epoch {
				return fmt.Errorf("note %d of epoch %d follows one of epoch %d", i+1, e, epoch)
			} else if e > epoch {
				epoch = e
			}
		}
		if uint64(len(rows)) != last {
			return fmt.Errorf("%d notes, the counter is %d", len(rows), last)
		}
		return err
	})
	if err != nil {
		w.Error(err)
		return
	}
	outcomes := make(map[string]int)
	for i, op := range h.all {
		there := notes[op.note]
		switch {
		case op.err == nil && op.note != "":
			outcomes["written"]++
			switch {
			case there == op.value:
			case there == 0 && w.losses.excuses(op):
				outcomes["lost"]++
			default:
				w.Errorf("%.40s was acknowledged as %d, the store has %d", op.note, op.value, there)
			}
		case op.err == nil:
			outcomes["read"]++
		case errors.Is(op.err, kv.ErrUnknown):
			outcomes["unknown"]++
		case errors.Is(op.err, kv.ErrUnavailable), errors.Is(op.err, kv.ErrClosed):
			outcomes["refused"]++
			if op.note != "" && there != 0 && !w.losses.mayLand(op) {
				w.Errorf("%.40s was refused (%v), and the store has it as %d", op.note, op.err, there)
			}
		default:
			w.Errorf("%.40s: %v", op.note, op.err)
		}
		if op.err != nil {
			continue
		}
		// Operations in the order of their ends: none of the operations that ended before this one
		// began has seen more.
		for _, before := range h.all[:i] {
			if before.err != nil || before.ended.After(op.began) || before.ended.Equal(op.began) || w.losses.excuses(before) {
				continue
			}
			if before.value > op.value || before.value == op.value && op.note != "" {
				w.Errorf("%q saw %d from %v on, and %q had %d at %v", op.note, op.value, op.began, before.note, before.value, before.ended)
			}
		}
	}
	w.Logf("%v, the counter is %d", outcomes, last)
}
