package fdbpq_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// disused sweeps, and returns the queues that this has deleted.
func (f *fixture) disused() (deleted []string) {
	f.Helper()
	for {
		swept, err := f.Sweep(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if deleted = append(deleted, swept.Deleted...); swept.Timers == 0 {
			return deleted
		}
	}
}

// deletes expects that a queue is there until some time has passed, and then deletes itself.
func (f *fixture) deletes(queue string, after time.Duration) {
	f.Helper()
	f.pass(after - time.Second)
	if deleted := f.disused(); len(deleted) > 0 {
		f.Fatalf("a second before %v: deleted %q", after, deleted)
	}
	f.pass(time.Second)
	if deleted := f.disused(); !slices.Equal(deleted, []string{queue}) {
		f.Fatalf("after %v: deleted %q, expected %s", after, deleted, queue)
	}
}

// queues are the names of all queues.
func (f *fixture) queues() (names []string) {
	f.Helper()
	f.view(func(r kv.Reader) (err error) {
		names, err = f.Queues(r, "", 1000)
		return err
	})
	return names
}

func TestEmptyQueueDeletesItself(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("other", `{"ttl":"1h"}`)
		f.configure("q", `{"expire_empty":"1h","priority":7}`)
		f.deletes("q", time.Hour)
		if names := f.queues(); !slices.Equal(names, []string{"other"}) {
			t.Errorf("queues: %q", names)
		}
		for _, space := range []string{"eu", "el", "z"} {
			if rows := f.rows(space); len(rows) > 0 {
				t.Errorf("a row is left: %q", rows)
			}
		}
		if pushed := f.push("q", fdbpq.NewItem{})[0]; pushed.Priority != 0 || pushed.Err != nil {
			t.Errorf("the next queue of this name pushed %+v", pushed)
		}
		f.pass(3 * time.Hour)
		if deleted := f.disused(); len(deleted) > 0 {
			t.Errorf("deleted %q, which has no such setting", deleted)
		}
		f.collectGarbage()
	})
}

// Whoever uses a queue has it begin anew, and leaves it as empty as it was.
func TestUses(t *testing.T) {
	t.Parallel()
	one := func(f *fixture) fdbpq.Lease {
		f.push("q", fdbpq.NewItem{})
		return *f.leaseOne("q", time.Minute).Lease
	}
	for name, use := range map[string]func(f *fixture){
		"a pop":         func(f *fixture) { f.push("q", fdbpq.NewItem{}); f.pop("q", fdbpq.Min, 1) },
		"an empty pop":  func(f *fixture) { f.pop("q", fdbpq.Min, 1) },
		"a settlement":  func(f *fixture) { _ = f.ack(one(f)) },
		"a late one":    func(f *fixture) { l := one(f); f.remove("q", l.ID()); _ = f.nack(l, 0) },
		"a purge":       func(f *fixture) { f.push("q", fdbpq.NewItem{}); f.purge("q") },
		"another field": func(f *fixture) { f.configure("q", `{"ttl":"1h"}`) },
		"a pause":       func(f *fixture) { f.update(f.Queue("q").Pause); f.update(f.Queue("q").Resume) },
		"a hand-over": func(f *fixture) {
			f.configure("q", `{"hand_over":"*"}`)
			l := one(f)
			f.push("next", fdbpq.NewItem{HandOver: &l})
		},
		"a schedule that was": func(f *fixture) {
			f.schedule("q", "s", `{"spec":"@daily"}`)
			f.update(func(tx kv.Tx) error { return timetable(f.Queue("q")).Delete(tx, f.Queue("q"), "s") })
		},
		"a source that was": func(f *fixture) {
			f.source("q", "edge", takerSource)
			f.update(func(tx kv.Tx) error { return f.sources.Delete(tx, f.Queue("q"), "edge") })
		},
		"a wait": func(f *fixture) {
			f.counts("q") // who waits has looked
			if err := f.Use(f.Context(), "q", "missing"); err != nil {
				f.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"expire_empty":"1h"}`)
				for range 3 {
					f.pass(50 * time.Minute)
					use(f)
				}
				f.deletes("q", time.Hour)
			})
		})
	}
}

// keeper is what keeps a queue, however long it lasts.
type keeper struct {
	config     string
	begin, end func(f *fixture)
}

var keepers = map[string]keeper{
	"a ready item":       {begin: func(f *fixture) { f.push("q", fdbpq.NewItem{}) }, end: func(f *fixture) { f.pop("q", fdbpq.Min, 1) }},
	"a delayed item":     {begin: func(f *fixture) { f.push("q", fdbpq.NewItem{Delay: 100 * time.Hour}) }, end: func(f *fixture) { f.purge("q") }},
	"an item with a key": {begin: func(f *fixture) { f.push("q", fdbpq.NewItem{Key: "k"}) }, end: func(f *fixture) { f.pop("q", fdbpq.Min, 1) }},
	"a leased item": {
		begin: func(f *fixture) { f.push("q", fdbpq.NewItem{}); f.leaseOne("q", 11*time.Hour) },
		end:   func(f *fixture) { f.purge("q") },
	},
	"a held item": {
		begin: func(f *fixture) { f.push("q", fdbpq.NewItem{}); f.holds("q", "somebody", 1) },
		end:   func(f *fixture) { f.purge("q") },
	},
	"a result": {
		begin: func(f *fixture) { f.push("q", fdbpq.NewItem{ResultTTL: 11 * time.Hour}); f.pop("q", fdbpq.Min, 1) },
		end:   func(f *fixture) { f.pass(15 * time.Hour) }, // it is kept as long as one for a day
	},
	"a message id": {
		config: `{"dedup_window":"11h"}`,
		begin:  func(f *fixture) { f.push("q", fdbpq.NewItem{MsgID: "id"}); f.pop("q", fdbpq.Min, 1) },
		end:    func(f *fixture) { f.pass(time.Hour) },
	},
	"a pop id": {
		config: `{"dedup_window":"11h"}`,
		begin: func(f *fixture) {
			f.push("q", fdbpq.NewItem{})
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: "id"})
				return err
			})
		},
		end: func(f *fixture) { f.pass(time.Hour) },
	},
	"a schedule": {
		begin: func(f *fixture) { f.schedule("q", "s", `{"spec":"@daily"}`) },
		end: func(f *fixture) {
			f.update(func(tx kv.Tx) error { return timetable(f.Queue("q")).Delete(tx, f.Queue("q"), "s") })
		},
	},
	"a source": {
		begin: func(f *fixture) { f.source("q", "edge", takerSource) },
		end:   func(f *fixture) { f.update(func(tx kv.Tx) error { return f.sources.Delete(tx, f.Queue("q"), "edge") }) },
	},
	"a link": {
		begin: func(f *fixture) {
			f.update(func(tx kv.Tx) error {
				_, err := link.New(f.Store).Set(tx, f.Queue("q"), "hub", []byte(`{"to":"another"}`))
				return err
			})
		},
		end: func(f *fixture) {
			f.update(func(tx kv.Tx) error {
				_, _, err := link.New(f.Store).Delete(tx, f.Queue("q"), "hub", false)
				return err
			})
		},
	},
	"settings of a key": {
		begin: func(f *fixture) { f.setKey("q", "k", `{"weight":2}`) },
		end:   func(f *fixture) { f.setKey("q", "k", `{"weight":null}`) },
	},
	"a fence of a key": {
		begin: func(f *fixture) {
			later := f.now()/1000 + (11 * time.Hour).Microseconds()
			id := f.pushed("elsewhere", 0, "it")[0]
			f.imports("q", fdbpq.Import{ID: id, Key: "k", KeyFence: later})
			f.pop("q", fdbpq.Min, 1)
		},
		end: func(f *fixture) { f.pass(2 * time.Hour) },
	},
	"tokens of a key that are out": {
		config: `{"key_rate":"1/24h"}`,
		begin:  func(f *fixture) { f.push("q", fdbpq.NewItem{Key: "k"}); f.pop("q", fdbpq.Min, 1) },
		end:    func(f *fixture) { f.pass(15 * time.Hour) },
	},
	"tokens that are out": {
		config: `{"rate":"1/24h"}`,
		begin:  func(f *fixture) { f.push("q", fdbpq.NewItem{}); f.pop("q", fdbpq.Min, 1) },
		end:    func(f *fixture) { f.configure("q", `{"rate":""}`) },
	},
	"a pause": {begin: func(f *fixture) { f.update(f.Queue("q").Pause) }, end: func(f *fixture) { f.update(f.Queue("q").Resume) }},
	"a queue that names it": {
		config: `{"dead_letters_from":"x,jobs"}`,
		begin:  func(f *fixture) { f.configure("jobs", `{"dead_letter":"q"}`) },
		end:    func(f *fixture) { f.configure("jobs", `{"dead_letter":""}`) },
	},
	"one of all queues that names it": {
		config: `{"dead_letters_from":"*"}`,
		begin:  func(f *fixture) { f.configure("jobs", `{"dead_letter":"q"}`) },
		end:    func(f *fixture) { f.delete("jobs") },
	},
}

// A queue that is in use stays, for however long nobody touches it, and goes some time after that.
func TestKeepers(t *testing.T) {
	t.Parallel()
	for name, keeps := range keepers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"expire_empty":"1h"}`)
				if keeps.config != "" {
					f.configure("q", keeps.config)
				}
				keeps.begin(f)
				for range 10 {
					f.pass(time.Hour)
					if deleted := f.disused(); len(deleted) > 0 {
						t.Fatalf("deleted %q", deleted)
					}
				}
				keeps.end(f)
				var deleted []string
				for passed := time.Duration(0); passed < 2*time.Hour && len(deleted) == 0; passed += 10 * time.Minute {
					f.pass(10 * time.Minute)
					deleted = f.disused()
				}
				if !slices.Equal(deleted, []string{"q"}) {
					t.Errorf("deleted %q two hours after the end, expected q", deleted)
				}
			})
		})
	}
}

// The default dead-letter queue of a queue is in use, whatever is in it, and so is one that takes those of all among many queues.
func TestDeadLetterQueueIsInUse(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("jobs", `{}`)
		for _, name := range []string{"jobs-dead", "t.all", "t.some", "all"} {
			f.configure(name, `{"expire_empty":"1h"}`)
		}
		f.configure("t.all", `{"dead_letters_from":"*"}`)
		f.configure("t.some", `{"dead_letters_from":"jobs,others"}`)
		f.configure("all", `{"dead_letters_from":"*"}`)
		f.configure("t.jobs", `{"dead_letter":"some"}`)
		f.configure("other", `{"dead_letter":"all"}`)
		f.pass(time.Hour)
		if deleted := f.disused(); !slices.Equal(deleted, []string{"t.all"}) {
			t.Errorf("deleted %q, expected t.all alone: the other tenant's queue is another one", deleted)
		}
		f.delete("jobs")
		f.pass(time.Hour)
		if deleted := f.disused(); !slices.Equal(deleted, []string{"jobs-dead"}) {
			t.Errorf("deleted %q, expected jobs-dead", deleted)
		}
		f.delete("other")
		for i := range 1000 {
			f.configure(fmt.Sprint("one of many ", i), `{}`)
		}
		f.pass(time.Hour)
		if deleted := f.disused(); len(deleted) > 0 {
			t.Errorf("deleted %q among more queues than are asked", deleted)
		}
	})
}

// Where a push could not make the queue again it does not delete itself.
func TestDeclaredQueuesStay(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"expire_empty":"1h"}`)
		options := f.clock.options(0)
		options.RefuseUnknown = true
		declared := f.opened(options)
		for range 5 {
			declared.pass(time.Hour)
			if deleted := declared.disused(); len(deleted) > 0 {
				t.Fatalf("deleted %q", deleted)
			}
		}
		f.pass(3 * time.Second) // the term of the other one
		f.deletesWithin("q", time.Hour)
	})
}

// deletesWithin expects that a queue deletes itself within some time.
func (f *fixture) deletesWithin(queue string, most time.Duration) {
	f.Helper()
	f.pass(most)
	if deleted := f.disused(); !slices.Equal(deleted, []string{queue}) {
		f.Errorf("deleted %q within %v, expected %s", deleted, most, queue)
	}
}

// The setting has two rows and a timer, which go with it, and with the queue: an earlier program may serve the queue then.
func TestSettingTakesItsRowsAlong(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, end := range []func(){
			func() { f.configure("q", `{"expire_empty":"0s"}`) },
			func() { f.delete("q") },
			func() { f.configure("q", `{"expire_empty":"2h"}`); f.configure("q", `{"expire_empty":"0s"}`) },
		} {
			f.configure("q", `{"expire_empty":"1h"}`)
			f.pass(30 * time.Minute)
			end()
			for _, space := range []string{"eu", "el", "z"} {
				if rows := f.rows(space); len(rows) > 0 {
					t.Errorf("a row is left: %q", rows)
				}
			}
		}
		f.configure("q", `{"expire_empty":"1h"}`)
		f.configure("q", `{"expire_empty":"3h"}`)
		f.deletes("q", 3*time.Hour)
	})
}

// A process that has just begun, or that had no contact with the store, cannot know who waits for items: the time begins anew.
func TestDisuseBeginsAnew(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"expire_empty":"1h"}`)
		f.pass(50 * time.Minute)
		f.clock.advance(10 * time.Hour)
		f.next(0).deletes("q", time.Hour)
	})
}

// A store that is away for a while deletes no queue when it is back: nobody could note that he waits.
func TestAbsenceIsNoDisuse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		db := fault.Wrap(base, fault.Options{})
		s, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		deleted := make(chan time.Time, 1)
		running.Go(func() {
			s.Maintain(ctx, fdbpq.Maintenance{Deleted: func(string) { deleted <- time.Now() }})
		})
		update(t, s, func(tx kv.Tx) error {
			_, err := s.Queue("q").Configure(tx, []byte(`{"expire_empty":"5m"}`))
			return err
		})
		<-time.After(4 * time.Minute)
		db.SetChances(fault.Chances{fault.Unavailable: 1})
		<-time.After(10 * time.Minute)
		db.SetChances(nil)
		back := time.Now()
		if after := (<-deleted).Sub(back); after < 5*time.Minute || after > 6*time.Minute {
			t.Errorf("the queue was deleted %v after the store was back, expected 5m", after)
		}
		stop()
		running.Wait()
	})
}

// Whoever waits writes that at most once in a tenth of the time, in one transaction, and nobody writes it of other queues.
func TestWaitsAreNotedSeldom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		base := open()
		defer base.Close()
		db := &priced{DB: base}
		f := newFixture(t, db)
		f.configure("plain", `{"ttl":"1h"}`)
		f.configure("q", `{"expire_empty":"1h"}`)
		for _, queue := range []string{"plain", "q"} {
			f.push(queue, fdbpq.NewItem{})
			f.pop(queue, fdbpq.Min, 1)
		}
		noted, wrote := 0, 0
		for range 3600 {
			f.clock.advance(time.Second)
			db.last = cost{}
			if err := f.Use(t.Context(), "plain", "q", "missing"); err != nil {
				t.Fatal(err)
			}
			if db.last != (cost{}) {
				noted++
			}
			if db.last.writes > 0 {
				wrote++
			}
		}
		if noted != 11 || wrote != 10 { // the first one reads what was written with the setting
			t.Errorf("%d transactions in an hour, and %d wrote, expected 11 and 10", noted, wrote)
		}
	})
}

// An operation on a queue that deletes itself costs two reads and a write more once in a tenth of the time, then a while two reads, and
// otherwise nothing.
func TestCostsOfUse(t *testing.T) {
	t.Parallel()
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			base, err := engine.place(t)()
			if err != nil {
				t.Fatal(err)
			}
			defer base.Close()
			db := &priced{DB: base}
			f := newFixture(t, db)
			f.configure("q", `{"expire_empty":"10h"}`)
			f.configure("plain", `{}`)
			more := func() (reads, writes int) {
				f.push("plain", fdbpq.NewItem{})
				plain := db.last
				f.push("q", fdbpq.NewItem{})
				return db.last.reads - plain.reads, db.last.writes - plain.writes
			}
			for _, step := range []struct {
				pass          time.Duration
				reads, writes int
			}{
				{59 * time.Minute, 2, 0}, {time.Second, 0, 0}, {time.Minute, 2, 1}, {time.Second, 2, 0}, {4 * time.Second, 2, 0},
				{time.Second, 0, 0}, {50 * time.Minute, 0, 0}, {10 * time.Minute, 2, 1},
			} {
				f.pass(step.pass)
				if reads, writes := more(); reads != step.reads || writes != step.writes {
					t.Errorf("%v later: %d reads and %d writes more, expected %d and %d", step.pass, reads, writes, step.reads, step.writes)
				}
			}
		})
	}
}

// An operation that begins while the queue is about to delete itself, or that is about to commit when the queue has done so, runs as
// if one had come after the other: either the queue stays, or it is made again, and nothing is lost.
func TestDisuseMeetsUse(t *testing.T) {
	t.Parallel()
	at := func(fields map[string]any, change func(*fdbpq.Config)) func(*world) operation {
		return func(*world) operation { return configureOf("b", fields, change, true) }
	}
	for name, use := range map[string]func(w *world) operation{
		"push":        func(*world) operation { return pushOf("b", []pushItem{{payload: "it"}}) },
		"unique push": func(*world) operation { return pushOf("b", []pushItem{{payload: "it", unique: "value"}}) },
		"keyed push":  func(*world) operation { return pushOf("b", []pushItem{{payload: "it", key: "k", delay: time.Minute}}) },
		"import": func(w *world) operation {
			return importOf("b", []importItem{{id: w.ids[len(w.ids)-1].id, payload: "it", priority: placeOf(w.ids[len(w.ids)-1].id).priority}})
		},
		"push and lease": func(*world) operation {
			return jointOf(pushOf("b", []pushItem{{payload: "it"}}), popOf("b", justOne(fdbpq.Min, ""), time.Minute))
		},
		"push and pop with an id": func(*world) operation {
			return jointOf(pushOf("b", []pushItem{{payload: "it"}}), popOf("b", justOne(fdbpq.Min, "pop"), 0))
		},
		"a pop that waits": func(*world) operation { return popOf("b", justOne(fdbpq.Min, ""), time.Minute) },
		"a hand-over":      handItOver("b", ""),
		"purge":            func(*world) operation { return purgeOf("b", false) },
		"delete":           func(*world) operation { return purgeOf("b", true) },
		"pause":            func(*world) operation { return pauseOf("b", true) },
		"settings of a key": func(*world) operation {
			return setKeyOf("b", "k", "paused", true, func(k *fdbpq.KeySettings) { k.Paused = new(true) })
		},
		"link":            func(*world) operation { return setLinkOf("b", "hub", theTaker, false) },
		"source":          func(*world) operation { return setTakerOf("b") },
		"another field":   at(map[string]any{"ttl": "1h"}, func(c *fdbpq.Config) { c.TTL = fdbpq.Duration(time.Hour) }),
		"no such setting": at(map[string]any{"expire_empty": "0s"}, func(c *fdbpq.Config) { c.ExpireEmpty = 0 }),
		"a longer time":   at(map[string]any{"expire_empty": "2h"}, func(c *fdbpq.Config) { c.ExpireEmpty = fdbpq.Duration(2 * time.Hour) }),
		"a queue that is new": func(*world) operation {
			return configureOf("c", map[string]any{"dead_letter": "b"}, func(c *fdbpq.Config) { c.DeadLetter = "b" }, true)
		},
		"schedule": func(*world) operation {
			return setScheduleOf("b", "s", map[string]any{"spec": "@hourly"}, func(c *schedule.Config) { c.Spec = "@hourly" }, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				w := worldOf(t, open, 3)
				w.narrow = true
				for _, sweepFirst := range []bool{true, false} {
					if err := w.disuseMeets(use, sweepFirst); err != nil {
						t.Fatalf("sweep first %t: %v\nbefore:\n%s", sweepFirst, err, strings.Join(w.trace, "\n"))
					}
				}
			})
		})
	}
}

// disuseMeets lets a sweep that deletes the queue b overlap an operation.
func (w *world) disuseMeets(use func(*world) operation, sweepFirst bool) error {
	p := w.processes[0]
	w.trace = nil
	after := time.Minute
	begin := []operation{
		configureOf("b", map[string]any{"expire_empty": "0s", "dead_letters_from": "*", "ttl": "0s"}, func(c *fdbpq.Config) {
			c.ExpireEmpty, c.DeadLettersFrom, c.TTL = 0, "*", 0
		}, true),
		purgeOf("b", true),
		configureOf("a", map[string]any{"hand_over": "*"}, func(c *fdbpq.Config) { c.HandOver = "*" }, true),
		purgeOf("a", false),
		purgeOf("c", true),
		pushOf("a", []pushItem{{payload: "of another queue"}}),
		leaseIt(w),
		configureOf("b", map[string]any{"expire_empty": after.String(), "dead_letters_from": "*"}, func(c *fdbpq.Config) {
			c.ExpireEmpty, c.DeadLettersFrom = fdbpq.Duration(after), "*"
		}, true),
	}
	for _, o := range begin {
		if err := w.do(p, o); err != nil {
			return err
		}
		if err := w.discover(p); err != nil {
			return err
		}
	}
	w.elapsed += after
	if err := w.heartbeat(everyProcess); err != nil {
		return err
	}
	a, b := meeting{p: w.processes[1], o: sweepOf()}, meeting{p: w.processes[2], o: use(w)}
	if !sweepFirst {
		a, b = b, a
	}
	reran, err := w.overlap(a, b, atOnce)
	if err != nil {
		return err
	}
	if !reran {
		return fmt.Errorf("neither ran again")
	}
	return w.same(p)
}
