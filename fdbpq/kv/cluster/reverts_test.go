package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// fleet is a world whose nodes have the log on their disks: two of three are needed to append,
// and the nodes that form a majority anew go on with the longest part that they have.
type fleet struct {
	*world
	rng   *rand.Rand
	parts map[*node]part // of nodes without a majority
	acked map[string]string
}

// part is the part of the log that is on the disk of a node.
type part struct {
	restore func()
	last    uint64
}

// image is an old state of a node.
type image struct {
	disk *vfs.MemFS
	part part
}

// runFleet runs a test in virtual time, with a fleet of three that has been up for a while.
func runFleet(t *testing.T, seed uint64, test func(f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{world: newWorld(t, 3), rng: rand.New(rand.NewPCG(seed, 0)), parts: make(map[*node]part), acked: make(map[string]string)}
		defer f.end()
		for _, n := range f.nodes {
			n.options.LogReplica = func(_, _ uint64) error { return nil }
			n.start()
		}
		f.push(5)
		f.steady()
		test(f)
	})
}

func (f *fleet) running() (all []*node) {
	for _, n := range f.nodes {
		if n.up() != nil {
			all = append(all, n)
		}
	}
	return all
}

func (f *fleet) part() part {
	state, err := f.log.State(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	return part{restore: f.log.Backup(), last: state.Last}
}

// down has nodes lose their power at once.
func (f *fleet) down(nodes ...*node) {
	f.Helper()
	before := f.running()
	if len(before) >= 2 {
		for _, n := range before {
			f.parts[n] = f.part()
		}
	}
	for _, n := range nodes {
		n.kill(f.rng)
	}
	if len(f.running()) < 2 {
		for _, n := range f.nodes {
			n.faults.set(func(f *faults) { f.blind = true })
		}
	}
}

// back starts nodes.
func (f *fleet) back(nodes ...*node) {
	f.Helper()
	for _, n := range nodes {
		had := len(f.running()) >= 2
		n.start()
		running := f.running()
		if had || len(running) < 2 {
			continue
		}
		most := slices.MaxFunc(running, func(a, b *node) int { return int(f.parts[a].last) - int(f.parts[b].last) })
		f.parts[most].restore()
		for _, n := range f.nodes {
			n.faults.set(func(f *faults) { f.blind = false })
		}
	}
}

// image is the state of a node as it is now.
func (f *fleet) image(n *node) image {
	return image{disk: n.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: f.rng}), part: f.part()}
}

// revert gives a node that is down an old state.
func (f *fleet) revert(n *node, to image) {
	n.disk = to.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: f.rng})
	f.parts[n] = to.part
}

// empty gives a node that is down an empty disk.
func (f *fleet) empty(n *node) {
	n.disk = newDisk()
	f.parts[n] = part{restore: func() {}}
}

// push writes rows that are acknowledged.
func (f *fleet) push(count int) {
	f.Helper()
	for range count {
		key := fmt.Sprint("row ", len(f.acked))
		f.await("a write", func() bool {
			_, term := f.active()
			return term.Update(context.Background(), set(key, "yes")) == nil
		})
		f.acked[key] = "yes"
	}
}

// steady waits until all that run have caught up, and a little longer: disks have to be told
// apart that differ by more than some seconds.
func (f *fleet) steady() {
	f.Helper()
	f.await("all to catch up", func() bool {
		return !slices.ContainsFunc(f.running(), func(n *node) bool { return !n.up().Status().CaughtUp })
	})
	<-time.After(15 * time.Second)
}

// whole expects that nothing is lost.
func (f *fleet) whole() {
	f.Helper()
	_, term := f.active()
	for key, value := range f.acked {
		if got := f.read(term, key); got != value {
			f.Errorf("%s is %q, it was acknowledged as %q", key, got, value)
		}
	}
}

// waits expects that no node takes over, and that they say where acknowledged rows may be.
func (f *fleet) waits(missing *node) {
	f.Helper()
	f.idle(time.Minute, f.nodes...)
	if want := "--without " + missing.name + `"`; !strings.Contains(f.reasons(), want) {
		f.Errorf("the members say\n%sexpected %s", f.reasons(), want)
	}
}

// goesOn expects that some node takes over by itself with all that was acknowledged.
func (f *fleet) goesOn() {
	f.Helper()
	f.push(3)
	f.whole()
}

// A disk goes back while another node is away, and the third one dies: what was acknowledged is
// on the disk of that alone. Nobody takes over; with the third one all is there.
func TestRevertedDisk(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(f *fleet, a, b, c *node){
		"to a time when all were there": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			f.push(5)
			f.steady()
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.revert(b, old)
			f.back(b, c)
		},
		"to a time when the other one was away": func(f *fleet, a, b, c *node) {
			f.down(c)
			f.push(5)
			f.steady()
			old := f.image(b)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.revert(b, old)
			f.back(c, b)
		},
		"after minutes without a write": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			<-time.After(3 * time.Minute)
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.revert(b, old)
			f.back(b, c)
		},
		"it is empty": func(f *fleet, a, b, c *node) {
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.empty(b)
			f.back(b, c)
		},
		"it starts several times": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			f.push(5)
			f.steady()
			f.down(b)
			f.back(b)
			f.steady()
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.revert(b, old)
			for range 3 {
				f.back(b)
				<-time.After(time.Minute)
				f.down(b)
			}
			f.back(c, b)
		},
		"it had restarted since, and the third one was there at first": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			f.down(b)
			f.back(b)
			f.push(5)
			f.steady()
			f.down(c)
			f.push(40)
			f.steady()
			f.down(b)
			f.revert(b, old)
			b.faults.holdLog() // until there is another majority
			f.back(b)
			<-time.After(5 * time.Second)
			f.down(a, b)
			f.revert(b, old)
			f.back(b, c)
		},
		"all lost their power": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			f.push(5)
			f.steady()
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.revert(b, old)
			f.back(c)
			<-time.After(time.Minute)
			f.back(b)
			f.idle(time.Minute, f.nodes...)
			f.down(b, c) // what they know outlives this
			f.back(b, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFleet(t, 1, func(f *fleet) {
				a, _ := f.active()
				b, c := f.others(a)[0], f.others(a)[1]
				history(f, a, b, c)
				f.waits(a)
				if _, err := c.up().PlanRecovery(context.Background(), cluster.Consent{}); err == nil || !strings.Contains(err.Error(), "no answer from "+a.name) {
					t.Errorf("a recovery that does not name %s: %v", a.name, err)
				}
				f.back(a)
				f.await("the third node says that it has more", func() bool { return strings.Contains(f.reasons(), "it has lost entries that were acknowledged") })
				f.recovered(c, cluster.Consent{})
				f.whole()
				f.settleCopies()
				f.steady()
				next, _ := f.active() // and disks count again
				f.down(next)
				f.goesOn()
			})
		})
	}
}

// An operator goes on without the third node. When it is back it follows, and its copy stays
// beside the new one.
func TestRevertedDiskWithoutThird(t *testing.T) {
	t.Parallel()
	runFleet(t, 2, func(f *fleet) {
		a, _ := f.active()
		b, c := f.others(a)[0], f.others(a)[1]
		old := f.image(b)
		f.push(5)
		f.steady()
		f.down(c)
		kept := len(f.acked)
		f.push(40)
		f.steady()
		f.down(a, b)
		f.revert(b, old)
		f.back(b, c)
		f.waits(a)
		r := f.recovered(b, cluster.Consent{Without: []string{a.name}})
		if r.Source.Name == a.name || len(r.Lost) == 0 {
			t.Errorf("the recovery goes on with %s and loses %q, expected another one, and what %s had", r.Source.Name, r.Lost, a.name)
		}
		for i := kept; i < kept+40; i++ {
			delete(f.acked, fmt.Sprint("row ", i))
		}
		f.push(3)
		f.whole()
		f.back(a)
		f.steady()
		f.followed(2)
		if _, err := a.disk.Stat("/copy.generation-1"); err != nil {
			t.Errorf("the old copy of %s: %v", a.name, err)
		}
	})
}

// Nothing has gone back, or somebody is there who has all: nodes take over by themselves.
func TestDisksThatCount(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]func(f *fleet, a, b, c *node){
		"the active one dies": func(f *fleet, a, b, c *node) { f.down(a) },
		"one was away, and the active one dies": func(f *fleet, a, b, c *node) {
			f.down(c)
			f.push(5)
			f.steady()
			f.down(a)
			f.back(c)
		},
		"all lose their power, and one stays away": func(f *fleet, a, b, c *node) {
			f.down(a, b, c)
			f.back(b, c)
		},
		"two are left, and one after the other starts anew": func(f *fleet, a, b, c *node) {
			f.down(a)
			f.push(5)
			f.steady()
			f.down(b)
			<-time.After(time.Minute)
			f.down(c)
			f.back(b)
			<-time.After(time.Minute)
			f.back(c)
		},
		"one after the other starts anew, and one dies": func(f *fleet, a, b, c *node) {
			for _, n := range []*node{c, b, a} {
				f.down(n)
				f.push(1)
				f.back(n)
				f.await("it has caught up", func() bool { return n.up().Status().CaughtUp })
			}
			f.down(b)
		},
		"one is empty, and has caught up": func(f *fleet, a, b, c *node) {
			f.down(b)
			f.empty(b)
			f.back(b)
			f.steady()
			f.down(a)
		},
		"one went back, and has caught up": func(f *fleet, a, b, c *node) {
			old := f.image(b)
			f.push(5)
			f.steady()
			f.down(c)
			f.push(40)
			f.down(b)
			f.revert(b, old)
			f.back(b)
			f.push(5)
			f.steady()
			f.down(a)
			f.back(c)
		},
		"one is empty, and all are there after a power failure": func(f *fleet, a, b, c *node) {
			f.down(c)
			f.push(40)
			f.steady()
			f.down(a, b)
			f.empty(b)
			f.back(a, b, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runFleet(t, 3, func(f *fleet) {
				a, _ := f.active()
				history(f, a, f.others(a)[0], f.others(a)[1])
				f.goesOn()
			})
		})
	}
}
