package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// loss is what may be lost when the log is: an attempt of a recovery, or a log that lost
// entries which no member has.
type loss struct {
	at      time.Time
	kept    uint64   // the counter that is certainly there behind it
	without []string // members whose copies were given up, or that nobody could hear
	chosen  bool     // an operator has named the copy to go on with
	cut     bool     // the log has lost its end: what rests somewhere may land in its place
}

// losses are all that happened to a world, and when its members lost what their disks had not
// synced.
type losses struct {
	all   []loss
	kills map[string][]time.Time
}

// excuses reports whether the documentation allows that an operation is lost: no copy that
// the recovery has seen had it. A member that acknowledged it has lost it with its power, or
// was given up, or an operator chose another copy.
func (l losses) excuses(op counted) bool {
	return slices.ContainsFunc(l.all, func(o loss) bool {
		killed := slices.ContainsFunc(l.kills[op.member], func(at time.Time) bool { return !at.Before(op.ended) && !at.After(o.at) })
		return op.began.Before(o.at) && op.value > o.kept && (o.chosen || killed || slices.Contains(o.without, op.member))
	})
}

// mayLand reports whether an append that was refused with certainty may be in the log after
// all, because the log lost the entry in its place.
func (l losses) mayLand(op counted) bool {
	return slices.ContainsFunc(l.all, func(o loss) bool {
		return o.cut && op.began.Before(o.at) && o.at.Sub(op.ended) < 10*time.Second
	})
}

// counter is the counter in a member's copy; 0 where it cannot be read now.
func (n *node) counter() (value uint64) {
	member := n.up()
	if member == nil {
		return 0
	}
	_ = member.Peek(context.Background(), func(r kv.Reader) error {
		row, err := r.Get(counterKey)
		value = kv.DecodeInteger(row)
		return err
	})
	return value
}

// disaster has the log lose its end, or all, while some members lose their power, their disks,
// or their connection. An operator recovers it, as pqd recover does.
type disaster struct {
	*world
	rng     *rand.Rand
	down    []*node // are away until the store serves again
	silent  *node   // does not answer
	deaf    bool    // it reaches the log
	release func()  // ends that
	consent cluster.Consent
	cut     bool
	begun   uint64 // the newest generation that an attempt has begun
}

func (w *world) disaster(rng *rand.Rand) {
	d := &disaster{world: w, rng: rng, release: func() {}}
	before := w.generation()
	d.powerFails()
	what := d.harm()
	if !d.cut {
		d.pause(5 * time.Second)
	}
	d.powerReturns()
	d.pause(20 * time.Second)
	attempts := d.operate()
	d.release()
	for _, n := range d.down {
		n.start()
	}
	w.follow()
	d.replace()
	w.Logf("%s; generation %d after %d; %d attempts", what, w.generation(), before, attempts)
}

func (d *disaster) pause(most time.Duration) {
	_ = rest(context.Background(), time.Duration(d.rng.Int64N(int64(most))))
}

// powerFails kills some members, and silences one of the others.
func (d *disaster) powerFails() {
	for _, n := range d.nodes {
		if d.rng.IntN(4) == 0 {
			n.kill(d.rng)
			d.down = append(d.down, n)
		}
	}
	n := d.nodes[d.rng.IntN(len(d.nodes))]
	switch {
	case n.up() == nil:
	case d.rng.IntN(3) == 0:
		d.silent, d.release = n, n.faults.hold()
	case d.rng.IntN(3) == 0:
		n.faults.set(func(f *faults) { f.deaf = true })
		d.silent, d.deaf = n, true
		d.release = func() { n.faults.set(func(f *faults) { f.deaf = false }) }
	}
}

// harm has the log break its promise.
func (d *disaster) harm() string {
	switch d.rng.IntN(5) {
	case 0:
		d.log.Remove()
		return "the log was deleted"
	case 1:
		d.log.Remove()
		_ = d.log.Create(context.Background())
		return "the log was deleted and made again"
	case 2:
		_ = d.log.End(context.Background())
		return "the log was ended"
	}
	if !d.quiet() {
		_ = d.log.End(context.Background())
		return "the log was ended"
	}
	// The others go on without what nobody but a silent member has. A node that hears nobody, and
	// reaches the log, goes on without what it has not read.
	o := loss{cut: true}
	for _, n := range d.nodes {
		if n != d.silent {
			o.kept = max(o.kept, n.counter())
		}
	}
	switch {
	case d.deaf:
		o.without, o.kept = d.names, min(o.kept, d.silent.counter())
	case d.silent != nil:
		o.without = []string{d.silent.name}
	}
	d.cut = true
	lost := d.log.Cut(1 + d.rng.IntN(12))
	o.at = time.Now()
	d.losses.all = append(d.losses.all, o)
	return fmt.Sprintf("the log has lost its last %d entries", lost)
}

// quiet waits until no member is about to take over, and reports whether that is so: its epoch
// could land in the place of what the log loses at this moment, and no member objects any more.
func (d *disaster) quiet() bool {
	for _, n := range d.down {
		n.faults.late.Wait()
	}
	for range 100 {
		if !slices.ContainsFunc(d.nodes, func(n *node) bool {
			member := n.up()
			return member != nil && member.Status().Role == cluster.Candidate
		}) {
			return true
		}
		_ = rest(context.Background(), 50*time.Millisecond)
	}
	return false
}

// powerReturns starts members again, some of them with an empty disk; one may stay away. One
// that keeps its disk is up.
func (d *disaster) powerReturns() {
	down := d.down
	d.down = nil
	kept := len(d.nodes) - len(down)
	if d.silent != nil {
		kept--
	}
	for i, n := range down {
		rest := len(down) - i - 1
		switch {
		case kept+rest == 0:
			n.start()
			kept++
		case d.rng.IntN(4) == 0 && len(d.down) == 0:
			d.down = append(d.down, n)
		case d.rng.IntN(4) == 0:
			n.disk = newDisk()
			n.start()
		default:
			n.start()
			kept++
		}
	}
}

// operate tries to recover until the store serves, and returns how often. Attempts are cut
// off, and go on at other members.
func (d *disaster) operate() (attempts int) {
	for began := time.Now(); ; attempts++ {
		if d.servesAgain() {
			return attempts
		}
		if time.Since(began) > 20*time.Minute {
			for _, n := range d.nodes {
				if member := n.up(); member != nil {
					d.Logf("member %s: %+v", n.name, member.Status())
				}
			}
			d.Fatalf("the store does not serve after %d attempts of a recovery: %+v", attempts, d.consent)
		}
		n := d.nodes[d.rng.IntN(len(d.nodes))]
		if n.up() == nil || n == d.silent {
			continue
		}
		d.attempt(n)
		d.pause(2 * time.Second)
	}
}

// servesAgain reports whether a member writes a row.
func (d *disaster) servesAgain() bool {
	for _, n := range d.nodes {
		member := n.up()
		if member == nil || n == d.silent {
			continue
		}
		if term := member.Current(); term != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := term.Update(ctx, set("operator", "was here"))
			cancel()
			if err == nil {
				return true
			}
		}
	}
	return false
}

// attempt recovers beside a member.
func (d *disaster) attempt(n *node) {
	limit := time.Hour
	if d.rng.IntN(3) == 0 {
		limit = time.Duration(d.rng.Int64N(int64(20 * time.Second))) // the operator cuts it off
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := d.consent
	kept := uint64(0)
	for _, o := range d.nodes {
		if !slices.Contains(c.Without, o.name) && (c.Source == "" || c.Source == o.name) {
			kept = max(kept, o.counter())
		}
	}
	r, err := n.up().Recover(ctx, c)
	d.losses.all = append(d.losses.all, loss{at: time.Now(), kept: kept, without: c.Without, chosen: c.Source != ""})
	if err == nil {
		d.check(r)
		return
	}
	d.decide(err.Error())
}

// replace gives members an empty disk that have stopped while another one serves: the log has
// lost what they have, and that one could not hear of it. It was silent for them, or its epoch
// landed the moment after.
func (d *disaster) replace() {
	stopped := func() (all []*node) {
		for _, n := range d.nodes {
			if n.up().Status().Role == cluster.Stopped {
				all = append(all, n)
			}
		}
		return all
	}
	for began := time.Now(); time.Since(began) < 20*time.Second; d.pause(time.Second) {
		for _, n := range stopped() {
			if d.cut && d.servesAgain() {
				n.kill(d.rng)
				n.disk = newDisk()
				n.start()
			}
		}
	}
	for _, n := range stopped() {
		d.Errorf("member %s has stopped while others serve: %s", n.name, n.up().Status().Reason)
	}
}

// check looks at what a recovery says of itself.
func (d *disaster) check(r cluster.Recovery) {
	if r.Generation < d.begun || r.Generation <= d.log.Number() { // the same one again where its first record was not seen
		d.Errorf("a recovery began generation %d after %d", r.Generation, max(d.begun, d.log.Number()))
	}
	d.begun = r.Generation
	for _, p := range r.Members {
		if slices.Contains(d.consent.Without, p.Name) && (!p.Known || p.Entry > 0) && len(r.Lost) == 0 {
			d.Errorf("the recovery without member %s, which had entry %d, says that nothing is lost", p.Name, p.Entry)
		}
	}
}

// decide does what a refusal asks for.
func (d *disaster) decide(refusal string) {
	switch {
	case strings.Contains(refusal, "serves the store"): // alone, with a log that is full at last
		d.release()
		d.silent, d.release = nil, func() {}
		for _, n := range d.down {
			n.start()
		}
		d.down = nil
	case strings.Contains(refusal, "no answer from"):
		switch {
		case d.silent != nil && strings.Contains(refusal, d.silent.name) && d.rng.IntN(2) == 0:
			d.release()
			d.silent, d.release = nil, func() {}
		case len(d.down) > 0 && d.rng.IntN(2) == 0:
			d.down[0].start()
			d.down = nil
		case d.rng.IntN(3) == 0:
			d.consent.Without = nil
			for _, n := range d.nodes {
				if n == d.silent || n.up() == nil {
					d.consent.Without = append(d.consent.Without, n.name)
				}
			}
		}
	case strings.Contains(refusal, "differ, and none has all of the other"):
		d.consent.Source = d.names[d.rng.IntN(len(d.names))]
	case strings.Contains(refusal, "expected only members without an answer"), strings.Contains(refusal, "has no copy"):
		d.consent = cluster.Consent{}
	}
}

// generation returns the newest generation that has a log.
func (w *world) generation() uint64 {
	newest, err := w.log.Newest(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return newest
}

// follow looks at the newest generation from now on.
func (w *world) follow() { w.log = w.log.At(w.generation()) }

// recoverWithoutNeed asks for a recovery that is not needed.
func (w *world) recoverWithoutNeed(ctx context.Context, n *node) {
	member := n.up()
	if member == nil {
		return
	}
	if r, err := member.Recover(ctx, cluster.Consent{}); err == nil {
		w.Errorf("recovered %+v although nothing was lost", r)
		w.follow()
	}
}
