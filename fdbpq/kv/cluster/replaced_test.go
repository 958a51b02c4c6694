package cluster_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// replace gives a new node the place of a node that is down, on the side of the log. The others are
// told by their options, which count from their next start on.
func (f *fleet) replace(lost *node, name string) (by *node) {
	f.Helper()
	by = &node{w: f.world, name: name, faults: &faults{}, disk: newDisk(), options: lost.options}
	by.options.Name, by.options.Members = name, f.with(lost.options.Members, lost, by)
	for i, n := range f.nodes {
		if n == lost {
			f.nodes[i] = by
		}
	}
	delete(f.parts, lost)
	f.back(by)
	f.steady()
	return by
}

// with are members with a new one in the place of a lost one.
func (f *fleet) with(members []string, lost, by *node) (all []string) {
	all = slices.Clone(members)
	all[slices.Index(all, lost.name)] = by.name
	return all
}

// A node takes the place of a lost one. Its disk remembers like the disk of the lost node, before the
// others know of it by their settings and after that.
func TestReplacedNodeIsWitness(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(f *fleet, a, b, c *node){
		"one is lost, and the other one starts anew": func(f *fleet, a, b, c *node) {
			f.down(c)
			f.replace(c, "d")
			f.down(b)
			f.push(5)
			f.steady()
			f.down(a)
			f.back(a)
		},
		"all lose their power, and one stays away": func(f *fleet, a, b, c *node) {
			f.down(c)
			d := f.replace(c, "d")
			f.down(a, b, d)
			f.back(a, d)
		},
		"all start anew with the new settings, and one stays away": func(f *fleet, a, b, c *node) {
			f.down(c)
			d := f.replace(c, "d")
			f.down(a, b, d)
			for _, n := range []*node{a, b} {
				n.options.Members = f.with(n.options.Members, c, d)
			}
			f.back(a, d)
		},
		"two are replaced by the page": func(f *fleet, a, b, c *node) {
			f.down(c)
			d := f.replace(c, "d")
			for _, n := range []*node{b, a} {
				f.down(n)
				n.options.Members = f.with(n.options.Members, c, d)
				f.back(n)
				f.steady()
			}
			f.down(b)
			e := f.replace(b, "e")
			for _, n := range []*node{d, a} {
				f.down(n)
				n.options.Members = f.with(n.options.Members, b, e)
				f.back(n)
				f.steady()
			}
			f.down(a, d, e)
			f.back(d, e)
		},
		"two are replaced before the others know": func(f *fleet, a, b, c *node) {
			f.down(c)
			d := f.replace(c, "d")
			f.down(b)
			b.options.Members = d.options.Members
			e := f.replace(b, "e")
			f.down(a, d, e)
			f.back(a, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFleet(t, 4, func(f *fleet) {
				a, _ := f.active()
				history(f, a, f.others(a)[0], f.others(a)[1])
				f.goesOn()
			})
		})
	}
}

// A node that has no part of the log is no company: it comes and goes, and the others count as
// without it.
func TestNodeWithoutPartOfLog(t *testing.T) {
	t.Parallel()
	runFleet(t, 5, func(f *fleet) {
		a, _ := f.active()
		b, c := f.others(a)[0], f.others(a)[1]
		stranger := &node{w: f.world, name: "d", faults: &faults{}, disk: newDisk(), options: c.options}
		stranger.options.Name, stranger.options.Members = "d", f.with(c.options.Members, c, stranger)
		stranger.options.LogReplica = func(_, _ uint64) error { return cluster.ErrNoPart }
		f.down(c)
		stranger.start()
		<-time.After(time.Minute)
		if stranger.up().Status().CaughtUp {
			t.Error("a node without a part of the log says that its disk has everything")
		}
		if keep := a.up().Keepers(); !slices.Equal(keep, []string{b.name}) {
			t.Errorf("%v have the log besides the active node, expected %s", keep, b.name)
		}
		f.down(b)
		<-time.After(time.Minute)
		stranger.stop()
		f.down(a)
		f.back(a, b)
		f.goesOn()
	})
}

// A node that has no part of the log takes over from nobody, even if its name comes first, and is nobody's successor.
func TestNodeWithoutPartOfLogTakesOverFromNobody(t *testing.T) {
	t.Parallel()
	runFleet(t, 8, func(f *fleet) {
		a, _ := f.active()
		stranger := &node{w: f.world, name: "0", faults: &faults{}, disk: newDisk(), options: a.options}
		stranger.options.Name = "0"
		stranger.options.LogReplica = func(_, _ uint64) error { return cluster.ErrNoPart }
		stranger.start()
		<-time.After(time.Minute)
		if to, err := a.up().Successor("0"); err == nil {
			t.Errorf("%s may be the successor, and has no part of the log", to)
		}
		for range 2 {
			leads, _ := f.active()
			f.down(leads)
			f.push(5)
			f.back(leads)
			f.steady()
		}
		if n := stranger.up().Status().Takeovers; n > 0 {
			t.Errorf("a node without a part of the log has taken over %d times", n)
		}
		stranger.stop()
		f.goesOn()
	})
}

// Only a node that has the log may lead it, so it is moved while all nodes have it.
func TestLogMovesWhileAllHaveIt(t *testing.T) {
	t.Parallel()
	runFleet(t, 7, func(f *fleet) {
		var to atomic.Pointer[[]string]
		for _, n := range slices.Clone(f.nodes) {
			f.down(n)
			n.options.Apart = func(_ context.Context, others []string) { to.Store(&others) }
			f.back(n)
			f.steady()
		}
		a, _ := f.active()
		b, c := f.others(a)[0], f.others(a)[1]
		moves := func(want ...string) {
			f.Helper()
			to.Store(nil)
			for range 10 {
				<-time.After(2 * time.Second)
				f.push(1)
			}
			var got []string
			if others := to.Load(); others != nil {
				got = slices.Sorted(slices.Values(*others))
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("the log may move to %v, expected %v", got, want)
			}
		}
		moves(b.name, c.name)
		f.down(c)
		<-time.After(time.Minute)
		moves()
		d := f.replace(c, "d")
		moves(b.name, d.name)
		f.goesOn()
	})
}

// A node of two that says that it has caught up may lose its power right then, together with the
// other one: that one knows of it.
func TestPowerFailsAsANodeHasCaughtUp(t *testing.T) {
	t.Parallel()
	runFleet(t, 6, func(f *fleet) {
		a, _ := f.active()
		b, c := f.others(a)[0], f.others(a)[1]
		f.down(c)
		f.down(b)
		f.back(b)
		f.await("the node to catch up", func() bool { return b.up().Status().CaughtUp })
		f.down(a, b)
		f.back(a, b)
		f.goesOn()
	})
}
