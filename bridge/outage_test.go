package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/testenv"
)

// serveOn starts a bridge on a store in db, as serve does.
func serveOn(t *testing.T, db kv.DB, options ...bridge.Options) *client {
	t.Helper()
	return serveStore(t, testenv.OpenStore(t, db, fdbpq.Options{}), options...)
}

// placed opens the place of a store on the default engine, for several bridges or faults.
func placed(t *testing.T) kv.DB {
	t.Helper()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// serveStore starts a bridge on a store, as serve does.
func serveStore(t *testing.T, store *fdbpq.Store, options ...bridge.Options) *client {
	t.Helper()
	env := &testenv.Bridged{NATS: testenv.NATS(t), Store: store}
	var err error
	env.Bridge, err = bridge.Start(t.Context(), env.NATS.Connect(t, bridge.ConnectOptions(nil)...), env.Store, chosen(options))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	return c
}

// faulty returns a store that misbehaves on demand.
func faulty(t *testing.T) *fault.DB {
	t.Helper()
	base, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	db := fault.Wrap(base, fault.Options{Seed: 1})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// While the store is away every request is answered 503 and nothing is done. Afterwards
// the bridge continues.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	db := faulty(t)
	c := serveOn(t, db)
	c.push("pq.jobs.push", "x")
	leased := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	waiter := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)

	db.Disconnect()
	c.refused(c.next(waiter), 503)
	id := leased.Header.Get("PQ-Id")
	for _, subject := range []string{
		"push", "push.5", "pop.min", "pop.max", "peek.min", "info", "list", "get." + id, "remove." + id, "move." + id + ".5", "requeue." + id, "revoke." + id,
		"keys", "key.a", "admin.config", "admin.purge", "admin.pause", "admin.resume", "admin.delete", "admin.key.a",
		"schedules", "schedule.s", "admin.schedule.s", "admin.schedule.s.pause", "admin.schedule.s.resume", "admin.schedule.s.delete", "admin.schedule.s.run",
		"sources", "admin.source.s", "admin.source.s.pause", "admin.source.s.resume", "admin.source.s.delete",
		"links", "admin.link.l", "admin.link.l.pause", "admin.link.l.resume", "admin.link.l.delete",
	} {
		m := c.refused(c.raw("pq.jobs."+subject, ""), 503)
		if len(m.Data) > 0 || m.Header.Get("Status") != "503" {
			t.Errorf("%s: %q, %v", subject, m.Data, m.Header)
		}
	}
	for verb, body := range map[string]string{"remove": `{"all":true}`, "move": `{"all":true,"priority":1}`, "revoke": `{"all":true}`, "requeue": `{"all":true,"to":"others"}`} {
		c.refused(c.raw("pq.jobs.admin."+verb, body), 503)
	}
	c.refused(c.raw("pq.jobs.link.l", `{"taker":"t","done":0}`), 503)
	c.refused(c.raw("pq._sys.list", ""), 503)
	c.refused(c.raw(leased.Reply, "+ACK"), 503)
	c.refused(c.raw(leased.Reply, "+NXT"), 503)
	c.refused(c.raw("pq.jobs.pop.min", "", "PQ-Wait", forever), 503)
	if err := c.env.Bridge.Ready(); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	// js.Publish tries again by itself.
	js, err := c.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan error, 1)
	go func() {
		_, err := js.Publish("pq.jobs.push", []byte("y"), nats.RetryAttempts(1000), nats.RetryWait(10*time.Millisecond))
		published <- err
	}()
	for c.stats()["push"].NumErrors < 5 {
	}
	db.Reconnect()
	if err := <-published; err != nil {
		t.Error(err)
	}
	c.accepted(c.raw(leased.Reply, "+ACK"))
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "y" {
		t.Errorf("popped %q", m.Data)
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}

// An outage is logged once, however many requests it affects, and so is its end.
func TestOutageDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	db, diary := faulty(t), newDiary()
	c := serveOn(t, db, bridge.Options{Logger: slog.New(diary)})
	c.push("pq.jobs.push", "x")
	db.Disconnect()
	for range 100 {
		c.refused(c.raw("pq.jobs.push", ""), 503)
		c.refused(c.raw("pq.jobs.pop.min", ""), 503)
	}
	db.Reconnect()
	said := 0
	for over := false; !over; {
		select {
		case line := <-diary.lines:
			over = strings.Contains(line, "the store commits again")
			if !strings.HasPrefix(line, "DEBUG") {
				said++
			}
		case <-testenv.Late():
			t.Fatal("the end of the outage was not said")
		}
	}
	if said != 2 {
		t.Errorf("%d lines about one outage, expected its beginning and its end", said)
	}
}

// With a store that fails in every permitted way nothing is lost and nothing is done
// twice.
func TestFaultyStore(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"alone": true, "shared": false} {
		t.Run(name, func(t *testing.T) { testFaultyStore(t, bridge.Options{Exclusive: exclusive}) })
	}
}

func testFaultyStore(t *testing.T, options bridge.Options) {
	db := faulty(t)
	c := serveOn(t, db, options)
	db.SetChances(fault.Chances{fault.Conflict: 0.2, fault.UnknownDone: 0.05, fault.UnknownNever: 0.05, fault.UnknownLate: 0.05, fault.Unavailable: 0.05})
	const each = 100
	var mu sync.Mutex
	pushed, popped := make(map[string]bool), make(map[string]bool)
	var pushing, popping sync.WaitGroup
	ended := make(chan struct{})
	for i := range 3 {
		pushing.Go(func() {
			c := c.another()
			for n := 0; n < each; n++ {
				name := strconv.Itoa(i) + "-" + strconv.Itoa(n)
				m := c.raw("pq.jobs.push", name)
				if m.Header.Get("Status") == "503" {
					n-- // certainly not done
					continue
				}
				c.acknowledged(m)
				mu.Lock()
				pushed[name] = true
				mu.Unlock()
			}
		})
		popping.Go(func() {
			c := c.another()
			for {
				header := []string{"PQ-Wait", "100ms"}
				if i > 0 {
					header = append(header, "PQ-Lease", "1h")
				}
				m := c.raw("pq.jobs.pop.min", "", header...)
				switch {
				case m.Header.Get("PQ-Id") != "":
					mu.Lock()
					if popped[string(m.Data)] {
						t.Errorf("%s was popped twice", m.Data)
					}
					popped[string(m.Data)] = true
					mu.Unlock()
					for m.Reply != "" && c.raw(m.Reply, "").Header.Get("Nats-Service-Error-Code") == "503" {
					}
				case m.Header.Get("Status") == "503":
				default:
					c.refused(m, 408)
					select {
					case <-ended:
						return
					default:
					}
				}
			}
		})
	}
	pushing.Wait()
	close(ended)
	popping.Wait()
	db.SetChances(nil)
	db.Release()
	for name := range pushed {
		if !popped[name] {
			t.Errorf("%s was lost", name)
		}
	}
	if len(popped) != len(pushed) || len(pushed) != 3*each {
		t.Errorf("%d pushed, %d popped", len(pushed), len(popped))
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
	if n := db.Stats().Injected[fault.UnknownDone]; n == 0 {
		t.Error("no faults")
	}
}

// silent is a store whose commits have an unknown result.
type silent struct {
	kv.DB
	mu    sync.Mutex
	mute  bool
	asked bool
}

func (s *silent) Update(ctx context.Context, fn func(kv.Tx) error) error {
	s.mu.Lock()
	mute, asked := s.mute, s.asked
	s.asked = mute
	s.mu.Unlock()
	switch {
	case !mute:
		return s.DB.Update(ctx, fn)
	case asked:
		return kv.ErrClosed // nor does it say so later
	}
	return kv.ErrUnknown
}

// A request with an unknown result is answered 504, which no client reads as a 503.
func TestUnknownResult(t *testing.T) {
	t.Parallel()
	base := placed(t)
	for subject, status := range map[string]string{"pq.jobs.push": "", "pq.jobs.pop.min": "", "ack": "503"} {
		db := &silent{DB: base}
		c := serveOn(t, db)
		if subject == "ack" {
			subject = c.lease("x").Reply
		}
		// Maintenance in between gives the same result, in either order.
		var m *nats.Msg
		for m == nil || m.Header.Get("Nats-Service-Error-Code") == "503" {
			db.mu.Lock()
			db.mute, db.asked = true, false
			db.mu.Unlock()
			m = c.raw(subject, "")
		}
		c.refused(m, 504)
		if m.Header.Get("Status") != status {
			t.Errorf("%s: %v", subject, m.Header)
		}
		db.mu.Lock()
		db.mute = false
		db.mu.Unlock()
		c.drain(c.env.Bridge)
	}
}

// slow is a store that can block the next commit that changes the queue jobs, or fail
// it.
type slow struct {
	kv.DB
	commits atomic.Int64 // that changed it
	fail    atomic.Pointer[error]
	hold    atomic.Pointer[chan struct{}]
	blocked chan struct{}
}

// slowly starts a bridge on such a store. Time stands still for a blocked commit: a busy
// machine may take longer than requests wait.
func slowly(t *testing.T, db kv.DB, options ...bridge.Options) (*client, *slow) {
	t.Helper()
	s := &slow{DB: db, blocked: make(chan struct{})}
	return serveOn(t, s, bridge.Patient(chosen(options))), s
}

// blockNext blocks the next commit until the returned function is called.
func (s *slow) blockNext() (release func()) {
	on := make(chan struct{})
	s.hold.Store(&on)
	return func() { close(on) }
}

// failNext fails the next commit with an error. One that is blocked already does not
// fail.
func (s *slow) failNext(err error) { s.fail.Store(&err) }

// awaitBlocked returns when a commit is blocked.
func (s *slow) awaitBlocked(t testing.TB) {
	t.Helper()
	select {
	case <-s.blocked:
	case <-testenv.Late():
		t.Fatal("no commit was blocked")
	}
}

func (s *slow) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return s.DB.Update(context.WithoutCancel(ctx), func(tx kv.Tx) error {
		noticed := &noticed{Tx: tx}
		if err := fn(noticed); err != nil || !noticed.jobs {
			return err
		}
		if err := s.fail.Swap(nil); err != nil {
			return *err
		}
		if on := s.hold.Swap(nil); on != nil {
			s.blocked <- struct{}{}
			<-*on
		}
		s.commits.Add(1)
		return nil
	})
}

// noticed is a transaction that notices whether it changes the queue jobs.
type noticed struct {
	kv.Tx
	jobs bool
}

func (n *noticed) Set(key, value []byte) {
	n.jobs = n.jobs || bytes.Contains(key, []byte("jobs"))
	n.Tx.Set(key, value)
}

func (n *noticed) Clear(key []byte) {
	n.jobs = n.jobs || bytes.Contains(key, []byte("jobs"))
	n.Tx.Clear(key)
}

// Pushes behind a commit with an unknown result are refused in time, and nothing of them
// is done.
func TestBehindStuckCommit(t *testing.T) {
	t.Parallel()
	diary, options := newDiary(), bridge.StuckAfter(10*time.Millisecond)
	options.Logger = slog.New(diary)
	c, db := slowly(t, faulty(t), options)
	// Not by way of the bridge, which would have less patience after a slow transaction.
	c.pushPast(fdbpq.NewItem{Payload: []byte("before")})
	release := sync.OnceFunc(db.blockNext())
	defer release() // or the end of a test that failed would wait for it
	first := c.send("pq.jobs.push", "held")
	db.awaitBlocked(t)
	for range 3 {
		c.refused(c.raw("pq.jobs.push", "behind"), 503)
	}
	if line := diary.await(t, "store error"); !strings.Contains(line, "a transaction does not end") {
		t.Errorf("logged %s", line)
	}
	c.push("pq.others.push", "elsewhere")
	release()
	c.acknowledged(c.next(first))
	c.push("pq.jobs.push", "after")
	for _, want := range []string{"before", "held", "after"} {
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != want {
			t.Errorf("popped %q, expected %q", m.Data, want)
		}
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}

// The bridge continues when the NATS server returns.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	up := c.StatusChanged(nats.CONNECTED)
	c.env.NATS.Restart(t)
	select {
	case <-up:
	case <-testenv.Late():
		t.Fatal("the client did not connect again")
	}
	deadline := testenv.BeginWait()
	for {
		m, err := c.RequestMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Header: h("Nats-Msg-Id", "once")}, testenv.Attempt())
		if err == nil && m.Header.Get("PQ-Id") != "" {
			break
		}
		if deadline.Over() {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if err := c.env.Bridge.Ready(); err != nil {
		t.Error(err)
	}
	c.push("pq.jobs.push", "x")
}
