package fdbpq_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// A process that takes over goes on at the time that has come: store time neither goes back, wherever between two
// heartbeats the last transaction was, nor ahead. What the first process timed ends when it said.
func TestTakeoverGoesOn(t *testing.T) {
	for name, last := range map[string]func(*fixture){
		"a lease": func(f *fixture) { f.leaseOne("q", time.Minute) },
		"a push":  func(f *fixture) { f.pushed("q", 1, "later") }, // which asks for no time
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				base := openFixture(t, open)
				options := base.clock.options(0)
				options.Exclusive, options.Followed = true, true
				f := base.opened(options)
				f.pushed("q", 0, "one", "two")
				f.pass(time.Second)
				base.clock.advance(900 * time.Millisecond)
				item := f.leaseOne("q", time.Minute)
				if err := f.nack(*item.Lease, 10*time.Second); err != nil {
					t.Fatal(err)
				}
				base.clock.advance(time.Millisecond)
				last(f)
				stopped := f.now()

				const down = 50 * time.Millisecond
				base.clock.advance(down)
				options.Downtime = new(down)
				next := base.opened(options)
				if passed := time.Duration(next.now() - stopped); passed != down {
					t.Errorf("%v of store time passed, expected %v", passed, down)
				}
				base.clock.advance(10*time.Second - down - time.Millisecond - 1)
				next.sweep()
				if n := next.counts("q"); n.Delayed != 1 {
					t.Errorf("a moment before the delay is over there is %+v", n)
				}
				base.clock.advance(1)
				next.sweep()
				if n := next.counts("q"); n.Delayed != 0 {
					t.Errorf("when the delay is over there is %+v", n)
				}
			})
		})
	}
}

// The time that it takes to open the store belongs to the time in which no process ran.
func TestOpeningTakesTime(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		before := openFixture(t, open)
		before.pass(time.Second)
		stopped := before.now()
		const down, opening = 50 * time.Millisecond, 3 * time.Second
		before.clock.advance(down)
		options := before.clock.options(0)
		options.Exclusive, options.Downtime = true, new(down)
		f := &fixture{TB: t, base: before.base, clock: before.clock}
		f.hook = func(at fault.Point) {
			if at == fault.BeforeCommit {
				before.clock.advance(opening)
				f.hook = nil
			}
		}
		f.join(options)
		if passed := time.Duration(f.now() - stopped); passed != down+opening {
			t.Errorf("%v of store time passed, expected %v", passed, down+opening)
		}
	})
}

// A transaction that changes nothing writes no time: it stays one that only reads.
func TestNoTimeIsWrittenWithoutChanges(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		base := openFixture(t, open)
		options := base.clock.options(0)
		options.Exclusive, options.Followed = true, true
		f := base.opened(options)
		f.pushed("q", 0, "one")
		f.pop("q", fdbpq.Min, 1)
		f.pass(time.Second)
		written := f.rows("t")[0]
		base.clock.advance(time.Second)
		f.pop("q", fdbpq.Min, 1)
		if got := f.rows("t")[0]; string(got.Value) != string(written.Value) {
			t.Error("a pop of an empty queue wrote store time")
		}
		f.pushed("q", 0, "two")
		if got := f.rows("t")[0]; string(got.Value) == string(written.Value) {
			t.Error("a push wrote no store time: the test proves nothing")
		}
	})
}

// slowLog is a log far away.
type slowLog struct{ *clustertest.Log }

const (
	there = 120 * time.Millisecond // until an entry is in the log
	back  = 80 * time.Millisecond  // until the answer is here
)

func (l slowLog) Append(ctx context.Context, after uint64, entry []byte) error {
	<-time.After(there)
	err := l.Log.Append(ctx, after, entry)
	<-time.After(back)
	return err
}

func (l slowLog) Read(ctx context.Context, first uint64, most int) ([][]byte, error) {
	found, err := l.Log.Read(ctx, first, most)
	<-time.After(back)
	return found, err
}

// reign is the term of a member of a cluster, with the store open.
type reign struct {
	*fdbpq.Store
	member *cluster.DB
	stop   func()
}

// begin opens the store in the next term of one of some members, as pqd does.
func begin(t *testing.T, members []*cluster.DB) reign {
	type won struct {
		member *cluster.DB
		term   *cluster.Term
	}
	first := make(chan won, len(members))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for _, member := range members {
		waiting.Go(func() {
			if term, err := member.Term(ctx); err == nil {
				first <- won{member, term}
			}
		})
	}
	at := <-first
	cancel()
	waiting.Wait()
	options := fdbpq.Options{Exclusive: true, Followed: true}
	if written, known := at.term.LastWrite(); known {
		options.Downtime = new(time.Since(written))
	}
	store, err := fdbpq.Open(t.Context(), at.term, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { store.Maintain(ctx, fdbpq.Maintenance{}) })
	return reign{store, at.member, func() {
		cancel()
		running.Wait()
	}}
}

// However often members take over, whether the active one steps down or dies, store time passes as time does, but for
// the moments without an active member, and an attempt ends after it begins.
func TestTakeoversMoveNoDueTime(t *testing.T) {
	for name, dies := range map[string]bool{"steps down": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, network, names := slowLog{clustertest.NewLog()}, clustertest.NewNetwork(), []string{"a", "b", "c"}
				disks := make(map[string]vfs.FS)
				start := func(name string) *cluster.DB {
					member, err := cluster.Open("/copy", log, network, cluster.Options{
						Name: name, Members: names, Replica: local.Options{FS: disks[name], Now: stopped, Log: slog.New(slog.DiscardHandler)},
					})
					if err != nil {
						t.Fatal(err)
					}
					return member
				}
				var members []*cluster.DB
				for _, name := range names {
					disks[name] = vfs.NewMem()
					members = append(members, start(name))
				}
				now := begin(t, members)
				began, first := time.Now(), now.Time()
				gaps := time.Duration(0)
				for n := range 8 {
					<-time.After(5*time.Second - 100*time.Millisecond) // the last heartbeat is nearly a second ago
					push(t, now.Store, "q", "one")
					leased, err := inSession(t.Context(), now.Store, func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) {
						return now.Queue("q").Lease(tx, sel, time.Minute)
					})
					if err != nil {
						t.Fatal(err)
					}
					push(t, now.Store, "q", "another") // which asks for no time
					shown, left := now.Time(), time.Now()
					now.stop()
					if dies {
						err = now.member.Abandon()
					} else {
						err = now.member.Release(t.Context(), "")
					}
					if err != nil {
						t.Fatal(err)
					}
					for i, member := range members {
						if dies && member == now.member {
							<-time.After(100 * time.Millisecond)
							members[i] = start(names[i])
						}
					}
					next := begin(t, members)
					gap := time.Since(left)
					gaps += gap
					if next.Time() < shown {
						t.Errorf("takeover %d: store time went back by %v in a gap of %v", n+1, shown-next.Time(), gap)
					}
					now = next
					update(t, now.Store, func(tx kv.Tx) error {
						_, err := now.Queue("q").GiveBack(tx, *leased.Items[0].Lease, "a takeover")
						return err
					})
					var attempts []fdbpq.Attempt
					if err := now.View(t.Context(), func(r kv.Reader) error {
						item, err := now.Queue("q").Get(r, leased.Items[0].ID)
						if err == nil {
							attempts, err = item.Attempts.All()
						}
						return err
					}); err != nil {
						t.Fatal(err)
					}
					if last := attempts[len(attempts)-1]; last.End.Before(last.Start) {
						t.Errorf("takeover %d: an attempt ends %v before it begins", n+1, last.Start.Sub(last.End))
					}
					passed, real := now.Time()-first, time.Since(began)
					if passed > real || passed < real-gaps {
						t.Errorf("takeover %d: store time is %v behind, expected up to the %v without an active member", n+1, real-passed, gaps)
					}
					t.Logf("takeover %d: a gap of %v; store time is %v behind", n+1, gap, real-passed)
				}
				now.stop()
				for _, member := range members {
					if err := member.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
