package bridge_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// restricted is a client that notices permission violations.
type restricted struct {
	*client
	denied chan string
}

// users are clients on a server that enforces permissions. The bridge has only the
// permissions that it needs.
type users struct {
	env *testenv.Bridged
}

func withUsers(t *testing.T, of map[string]subjects.Permissions) *users {
	t.Helper()
	u := serverWithUsers(t, of)
	u.env.Bridge = u.start(t, bridge.Options{Exclusive: true})
	return u
}

// serverWithUsers is withUsers without the bridge.
func serverWithUsers(t *testing.T, of map[string]subjects.Permissions) *users {
	t.Helper()
	grammar, err := subjects.New(bridge.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	user := func(name string, p subjects.Permissions) *server.User {
		return &server.User{Username: name, Password: name, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: p.Publish},
			Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}}
	}
	u := &users{env: &testenv.Bridged{Store: testenv.Store(t)}}
	u.env.NATS = testenv.NATS(t, func(o *server.Options) {
		o.Users = append(o.Users, user("bridge", grammar.Bridge()))
		for name, p := range of {
			o.Users = append(o.Users, user(name, p))
		}
	})
	return u
}

// start starts a bridge.
func (u *users) start(t *testing.T, o bridge.Options) *bridge.Bridge {
	t.Helper()
	options := append(bridge.ConnectOptions(nil), nats.UserInfo("bridge", "bridge"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		t.Errorf("the bridge: %v", err)
	}))
	b, err := bridge.Start(t.Context(), u.env.NATS.Connect(t, options...), u.env.Store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { (&client{TB: t}).drain(b) })
	return b
}

func (u *users) connect(t *testing.T, name string) restricted {
	t.Helper()
	denied := make(chan string, 16)
	nc := u.env.NATS.Connect(t, nats.UserInfo(name, name), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", name, err)
		}
		denied <- err.Error()
	}))
	return restricted{&client{TB: t, Conn: nc, env: u.env}, denied}
}

// may sends a request and reports whether it was answered. The server reports requests
// that it denies.
func (r restricted) may(subject string) bool {
	r.Helper()
	sub := r.send(subject, "")
	select {
	case <-sub.came:
		return true
	case why := <-r.denied:
		if !strings.Contains(strings.ToLower(why), strings.ToLower(subject)) {
			r.Fatalf("%s: denied was %s", subject, why)
		}
		return false
	case <-testenv.Late():
		r.Fatalf("%s: neither answered nor denied", subject)
		return false
	}
}

// hears reports whether the server permits a subscription.
func (r restricted) hears(subject string) bool {
	r.Helper()
	sub, err := r.SubscribeSync(subject)
	if err == nil {
		err = r.Flush()
	}
	if err != nil {
		r.Fatal(err)
	}
	// A denial arrives before the answer to the flush, but another goroutine handles it.
	// The connection's last error is set at once.
	if last := r.LastError(); last != nil && strings.Contains(last.Error(), `"`+subject+`"`) {
		<-r.denied
		return false
	}
	if err := sub.Unsubscribe(); err != nil {
		r.Fatal(err)
	}
	return true
}

// Every user can do what its role allows and nothing else, and the bridge works with its
// documented permissions.
func TestPermissions(t *testing.T) {
	t.Parallel()
	grammar, err := subjects.New(bridge.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	pushes := []string{"push", "push.5"}
	pops := []string{"pop.min", "pop.max", "ack.c.t"}
	peeks := []string{"peek.min", "peek.max"}
	reads := []string{"info", "list", "get.x", "result.x", "keys", "key.%2E", "schedules", "schedule.s", "sources", "links"}
	changes := []string{"cancel.x", "remove.x", "move.x.5", "requeue.x", "revoke.x", "admin.config", "admin.purge", "admin.pause", "admin.resume", "admin.delete", "admin.remove", "admin.move", "admin.revoke", "admin.requeue", "admin.key.a", "admin.schedule.s", "admin.schedule.s.pause", "admin.schedule.s.resume", "admin.schedule.s.delete", "admin.schedule.s.run", "admin.source.s", "admin.source.s.pause", "admin.source.s.resume", "admin.source.s.delete", "admin.link.l", "admin.link.l.pause", "admin.link.l.resume", "admin.link.l.delete"}
	takes := []string{"link.l"}
	imports := []string{"import"}
	all := slices.Concat(pushes, imports, pops, peeks, takes, reads, changes)
	for verb := range testenv.Requests(t, grammar, "jobs") {
		if !slices.ContainsFunc(all, func(text string) bool {
			s, err := grammar.Parse("pq.jobs." + text)
			return err == nil && s.Verb == verb
		}) {
			t.Errorf("no role is asked about %s", verb)
		}
	}
	roles := map[string]struct {
		of     func(queue string) (subjects.Permissions, error)
		queue  string
		verbs  []string
		events bool
	}{
		"producer": {grammar.Producer, "jobs", pushes, false},
		"caller":   {grammar.Caller, "jobs", []string{"result.x", "cancel.x"}, false},
		"importer": {grammar.Importer, "jobs", imports, false},
		"consumer": {grammar.Consumer, "jobs", slices.Concat(pops, peeks), true},
		"taker":    {grammar.Taker, "jobs", takes, false},
		"viewer":   {grammar.Viewer, "jobs", slices.Concat(reads, peeks), true},
		"auditor":  {grammar.Viewer, "*", slices.Concat(reads, peeks), true},
		"admin":    {grammar.Admin, "jobs", slices.Concat(reads, peeks, changes), true},
	}
	permissions := make(map[string]subjects.Permissions)
	for name, role := range roles {
		if permissions[name], err = role.of(role.queue); err != nil {
			t.Fatal(err)
		}
	}
	permissions["five"] = subjects.Permissions{Publish: []string{"pq.jobs.push.5"}, Subscribe: []string{subjects.Inbox}}
	permissions["ann"] = subjects.Permissions{Publish: []string{"pq.jobs.admin.key.ann"}, Subscribe: []string{subjects.Inbox}}
	permissions["config"] = subjects.Permissions{Publish: []string{"pq.jobs.admin.*"}, Subscribe: []string{subjects.Inbox}}
	u := withUsers(t, permissions)

	for name, role := range roles {
		t.Run(name, func(t *testing.T) {
			c := u.connect(t, name)
			for _, queue := range []string{"jobs", "other"} {
				mine := role.queue == "*" || role.queue == queue
				for _, verb := range all {
					subject := "pq." + queue + "." + verb
					if got, want := c.may(subject), mine && slices.Contains(role.verbs, verb); got != want {
						t.Errorf("may ask %s: %v, want %v", subject, got, want)
					}
				}
				if subject := "pq." + queue + ".event.dead"; c.may(subject) {
					t.Errorf("may publish %s", subject)
				}
				if subject := "pq." + queue + ".event.*"; c.hears(subject) != (mine && role.events) {
					t.Errorf("may listen to %s: want %v", subject, mine && role.events)
				}
			}
			for _, subject := range []string{"pq._sys.list", "pq._sys.info", "$SRV.PING.pq", "$SRV.STATS.pq"} {
				if got, want := c.may(subject), role.queue == "*"; got != want {
					t.Errorf("may ask %s: %v, want %v", subject, got, want)
				}
			}
			for _, subject := range []string{"pq.>", "pq.jobs.push", "pq.jobs.ack.>", ">"} {
				if c.hears(subject) {
					t.Errorf("may listen to %s", subject)
				}
			}
		})
	}

	t.Run("together", func(t *testing.T) {
		u := withUsers(t, permissions) // what the others tried is not in the way
		producer, consumer, viewer := u.connect(t, "producer"), u.connect(t, "consumer"), u.connect(t, "viewer")
		events := viewer.hear("pq.jobs.event.*")
		if err := viewer.Flush(); err != nil {
			t.Fatal(err)
		}
		five := u.connect(t, "five")
		five.push("pq.jobs.push.5", "five")
		if five.may("pq.jobs.push.4") || five.may("pq.jobs.push") {
			t.Error("may push with any priority")
		}
		ann, config := u.connect(t, "ann"), u.connect(t, "config")
		if !ann.may("pq.jobs.admin.key.ann") || ann.may("pq.jobs.admin.key.Ann") || ann.may("pq.other.admin.key.ann") || ann.may("pq.jobs.key.ann") {
			t.Error("the right to the settings of one key is not that alone")
		}
		if !config.may("pq.jobs.admin.config") || config.may("pq.jobs.admin.key.ann") {
			t.Error("the right to the configuration has that to the settings of keys")
		}
		for range 20 {
			producer.push("pq.jobs.push", "x", "PQ-Priority", "9")
		}
		first := consumer.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
		if string(first.Data) != "five" {
			t.Errorf("popped %q", first.Data)
		}
		consumer.accepted(consumer.raw(first.Reply, "+TERM no"))
		if m := viewer.next(events); m.Subject != "pq.jobs.event.dead" {
			t.Errorf("event on %s", m.Subject)
		}
		// A batch is many answers to one request, each with a lease of its own.
		items := consumer.batch(consumer.send("pq.jobs.pop.min", "100", "PQ-Lease", "1h"))
		if len(items) < 20 {
			t.Errorf("a batch of %d", len(items))
		}
		for _, m := range items {
			consumer.accepted(consumer.raw(m.Reply, "+ACK"))
		}
	})
}
