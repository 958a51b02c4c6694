package bridge_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/testenv"
)

// diary is a log whose lines a test can wait for.
type diary struct {
	slog.Handler
	lines chan string
}

func newDiary() diary { return diary{slog.DiscardHandler, make(chan string, 1<<12)} }

func (d diary) Enabled(context.Context, slog.Level) bool { return true }

func (d diary) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	d.lines <- text
	return nil
}

// await returns the next line with this text.
func (d diary) await(t testing.TB, text string) string {
	t.Helper()
	late := testenv.Late()
	for {
		select {
		case line := <-d.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			t.Fatalf("nothing was logged about %s", text)
		}
	}
}

// solo is a bridge on a store of its own that cannot be shared.
type solo struct {
	nc     *nats.Conn
	bridge *bridge.Bridge
	store  *fdbpq.Store
	diary  diary
}

// alone starts a bridge that connects to the first of the servers and knows
// the others.
func alone(t *testing.T, servers ...*testenv.Server) *solo {
	t.Helper()
	s := &solo{store: testenv.Store(t), diary: newDiary()}
	log := slog.New(s.diary)
	var others []string
	for _, server := range servers {
		others = append(others, server.URL())
	}
	options := append(bridge.ConnectOptions(log), nats.DontRandomize(), func(o *nats.Options) error {
		o.Servers = others
		return nil
	})
	s.nc = servers[0].Connect(t, options...)
	var err error
	s.bridge, err = bridge.Start(t.Context(), s.nc, s.store, bridge.Options{Exclusive: true, StoreName: "local:" + t.Name(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.drain(t)
		for t.Failed() && len(s.diary.lines) > 0 {
			t.Logf("%s logged %s", s.store.ID(), <-s.diary.lines)
		}
	})
	return s
}

func (s *solo) drain(t *testing.T) { (&client{TB: t}).drain(s.bridge) }

// Of two bridges with different stores on one server, the one that started later goes on
// standby until the other one has gone.
func TestStandbyAfterReconnect(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		elderMoves bool
	}{
		{"the younger one comes", false},
		{"the elder one comes", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			left, right := testenv.NATS(t), testenv.NATS(t)
			var elder, younger *solo
			if tc.elderMoves {
				elder = alone(t, left, right)
				younger = alone(t, right)
			} else {
				elder = alone(t, right)
				younger = alone(t, left, right)
			}
			c := &client{TB: t, Conn: right.Connect(t)}
			var waiter answers
			if tc.elderMoves {
				c.env = &testenv.Bridged{NATS: right, Store: younger.store, Bridge: younger.bridge}
				waiter = c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
				c.waiting("jobs", 1)
			}
			left.Shutdown()
			line := younger.diary.await(t, "on standby")
			if !strings.HasPrefix(line, "ERROR") || !strings.Contains(line, elder.store.ID()) || !strings.Contains(line, younger.store.ID()) {
				t.Errorf("logged %s", line)
			}
			if tc.elderMoves {
				c.refused(c.next(waiter), 409)
				elder.diary.await(t, "a bridge that started later serves beside this one")
			}
			if err := younger.bridge.Ready(); err == nil || !strings.Contains(err.Error(), elder.store.ID()) {
				t.Errorf("ready: %v", err)
			}
			if err := elder.bridge.Ready(); err != nil {
				t.Error(err)
			}
			served := func(by *solo, n int) {
				t.Helper()
				for i := range n {
					c.push("pq.jobs.push", strconv.Itoa(i))
				}
				for i := range n {
					if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != strconv.Itoa(i) {
						t.Fatalf("popped %q, expected %d", m.Data, i)
					}
				}
				if list := object[struct{ Total int }](c, "pq._sys.list", ""); list.Total != 1 {
					t.Errorf("%d queues", list.Total)
				}
				if info := object[struct {
					StoreID string `json:"store_id"`
				}](c, "pq._sys.info", ""); info.StoreID != by.store.ID() {
					t.Errorf("served by store %s, expected %s", info.StoreID, by.store.ID())
				}
			}
			served(elder, 20)

			elder.drain(t)
			up := younger.nc.StatusChanged(nats.CONNECTED) // it may serve again before it has reconnected
			if err := younger.nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			await(t, up, "the younger one connects again")
			younger.diary.await(t, "serving again")
			if err := younger.bridge.Ready(); err != nil {
				t.Error(err)
			}
			served(younger, 20)
			sub := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
			c.waiting("jobs", 1)
			c.push("pq.jobs.push", "for who waits")
			if m := c.next(sub); string(m.Data) != "for who waits" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
		})
	}
}

// A bridge on standby drains like any other.
func TestDrainsOnStandby(t *testing.T) {
	t.Parallel()
	left, right := testenv.NATS(t), testenv.NATS(t)
	elder := alone(t, right)
	younger := alone(t, left, right)
	held := (&client{TB: t, Conn: left.Connect(t)}).lease("held")
	left.Shutdown()
	younger.diary.await(t, "on standby")
	elder.drain(t)
	c := &client{TB: t, Conn: right.Connect(t)}
	c.raw(held.Reply, "+ACK") // by the server, or by the bridge if that has come back
	younger.drain(t)
	if err := younger.bridge.Ready(); err == nil {
		t.Error("ready after it has ended")
	}
}

// A copy of an embedded store is another store although it has the same id: a restored
// backup does not serve beside its original.
func TestCopyOfAStoreIsARival(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	original := alone(t, server)
	start := func(exclusive bool) (*bridge.Bridge, error) {
		return bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(nil)...), original.store, bridge.Options{Exclusive: exclusive, StoreName: "local:copy"})
	}
	_, err := start(true)
	if err == nil || !strings.Contains(err.Error(), "with a copy of this store") || !strings.Contains(err.Error(), original.store.ID()) {
		t.Errorf("a bridge on a copy started beside the original: %v", err)
	}
	// A bridge on a shared store with the same id is no rival.
	shared, err := start(false)
	if err != nil {
		t.Fatal(err)
	}
	original.drain(t)
	(&client{TB: t}).drain(shared)
	copied, err := start(true)
	if err != nil {
		t.Fatalf("a bridge on a copy, after the original has gone: %v", err)
	}
	(&client{TB: t}).drain(copied)
}
