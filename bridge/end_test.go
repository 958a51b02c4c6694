package bridge_test

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/testenv"
)

// A drain whose time is over says how many requests it leaves unanswered, settlements as
// well as others.
func TestDrainReportsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(c *client, ack string) answers{
		"a push":       func(c *client, _ string) answers { return c.send("pq.jobs.push", "x") },
		"a settlement": func(c *client, ack string) answers { return c.send(ack, "+ACK") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &slow{DB: faulty(t), blocked: make(chan struct{})}
			env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.OpenStore(t, db, fdbpq.Options{})}
			var err error
			if env.Bridge, err = bridge.Start(t.Context(), env.NATS.Connect(t), env.Store, bridge.Patient(bridge.Options{Exclusive: true})); err != nil {
				t.Fatal(err)
			}
			c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
			ack := c.leases(1)[0]
			c.inFlight("work", 0) // answered a moment before
			release := db.blockNext()
			held := send(c, ack)
			db.awaitBlocked(t)
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := env.Bridge.Drain(over); err == nil || !strings.Contains(err.Error(), "1 not answered") {
				t.Errorf("error %v, expected that one request is not answered", err)
			}
			release()
			if m := c.next(held); m.Header.Get("Nats-Service-Error") != "" {
				t.Errorf("%v", m.Header)
			}
		})
	}
}

// A bridge that has ended leaves no goroutine and no subscription behind.
func TestDrainLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"own store": true, "shared store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.Store(t)}
			nc := env.NATS.Connect(t, bridge.ConnectOptions(nil)...)
			c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
			pprof.Do(t.Context(), pprof.Labels("of", t.Name()), func(context.Context) { // whatever it starts has the label
				var err error
				if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, bridge.Options{Exclusive: exclusive}); err != nil {
					t.Fatal(err)
				}
			})
			testenv.Await(t, "goroutines have the label", func() bool { return labelled(t) })
			c.giveUp(1, 1) // it asks the server about clients
			c.push("pq.jobs.push", "x")
			c.waiting("jobs", 0)
			c.drain(env.Bridge)
			late := testenv.BeginWait()
			for labelled(t) || nc.NumSubscriptions() > 0 {
				if late.Over() {
					var all strings.Builder
					_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
					t.Fatalf("%d subscriptions are left; goroutines:\n%s", nc.NumSubscriptions(), &all)
				}
			}
		})
	}
}

// labelled reports whether a goroutine has the test's label.
func labelled(t *testing.T) bool {
	t.Helper()
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(all.String(), `"of":"`+t.Name()+`"`)
}

// A bridge that cannot pause in order says so.
func TestStandbyReportsFailedPause(t *testing.T) {
	t.Parallel()
	c := serve(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := bridge.EnterStandby(over, c.env.Bridge); err == nil {
		t.Error("paused without a flush")
	}
}
