package subjects_test

import (
	"slices"
	"testing"

	. "github.com/pqbridge/pqbridge/subjects"
)

func allowed(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Covers(p, subject) })
}

var (
	reads   = []string{"info", "list", "get.x", "peek.min", "peek.max", "keys", "key.%2B1", "schedules", "schedule.s", "sources", "links"}
	changes = []string{"remove.x", "move.x.5", "requeue.x", "revoke.x", "admin.config", "admin.purge", "admin.pause", "admin.resume", "admin.delete", "admin.remove", "admin.move", "admin.revoke", "admin.requeue", "admin.key.x", "admin.schedule.s", "admin.schedule.s.pause", "admin.schedule.s.resume", "admin.schedule.s.delete", "admin.schedule.s.run", "admin.source.s", "admin.source.s.pause", "admin.source.s.resume", "admin.source.s.delete", "admin.link.s", "admin.link.s.pause", "admin.link.s.resume", "admin.link.s.delete"}
	pushes  = []string{"push", "push.5", "push.-5"}
	pops    = []string{"pop.min", "pop.max", "ack.c1.t1"}
	takes   = []string{"link.s"}
	peeks   = []string{"peek.min", "peek.max"}
	events  = []string{"event.dead"}
)

func TestPermissions(t *testing.T) {
	g := grammar(t, "a.pq")
	all := slices.Concat(reads, changes, pushes, pops, takes, events)
	for _, tc := range []struct {
		name    string
		of      func(queue string) (Permissions, error)
		publish []string
		events  bool
	}{
		{"producer", g.Producer, pushes, false},
		{"consumer", g.Consumer, slices.Concat(pops, peeks), true},
		{"taker", g.Taker, takes, false},
		{"viewer", g.Viewer, reads, true},
		{"admin", g.Admin, slices.Concat(reads, changes), true},
	} {
		for _, queue := range []string{"jobs", "*"} {
			p, err := tc.of(queue)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range []string{"jobs", "other"} {
				mine := queue == "*" || q == queue
				for _, verb := range all {
					subject := "a.pq." + q + "." + verb
					want := mine && slices.Contains(tc.publish, verb)
					if got := allowed(p.Publish, subject); got != want {
						t.Errorf("%s of %s publishes %s: %v, want %v", tc.name, queue, subject, got, want)
					}
				}
				subject := "a.pq." + q + ".event.dead"
				if got, want := allowed(p.Subscribe, subject), mine && tc.events; got != want {
					t.Errorf("%s of %s hears %s: %v, want %v", tc.name, queue, subject, got, want)
				}
			}
			seesAll := tc.events && queue == "*" && tc.name != "consumer"
			for _, subject := range []string{"a.pq._sys.list", "a.pq._sys.info", "a.pq._sys.cluster.status", "$SRV.PING", "$SRV.STATS.pq", "$SRV.INFO.pq.id"} {
				if got := allowed(p.Publish, subject); got != seesAll {
					t.Errorf("%s of %s publishes %s: %v, want %v", tc.name, queue, subject, got, seesAll)
				}
			}
			for _, verb := range []string{"step-down", "replace"} {
				if got, want := allowed(p.Publish, "a.pq._sys.cluster."+verb), tc.name == "admin" && queue == "*"; got != want {
					t.Errorf("%s of %s may ask for %s: %v, want %v", tc.name, queue, verb, got, want)
				}
			}
			if !allowed(p.Subscribe, "_INBOX.x.y") {
				t.Errorf("%s of %s hears no replies", tc.name, queue)
			}
			for _, foreign := range []string{"a.pq.jobs.push", "a.pq.jobs.pop.min", g.All(), g.Acks(), ">"} {
				if allowed(p.Subscribe, foreign) {
					t.Errorf("%s of %s may listen to %s", tc.name, queue, foreign)
				}
			}
		}
		for _, bad := range []string{"", ">", "jobs.>", "*.push", "_sys", "a b"} {
			if p, err := tc.of(bad); err == nil {
				t.Errorf("%s of %q: %+v, want an error", tc.name, bad, p)
			}
		}
	}
}

// A requeuer lists and removes dead letters, and pushes to the queue that they
// come from.
func TestRequeuerPermissions(t *testing.T) {
	g := grammar(t, "a.pq")
	all := slices.Concat(reads, changes, pushes, pops, takes, events)
	for queue, may := range map[string]map[string][]string{
		"jobs": {"jobs": {"info"}, "jobs-dead": {"list", "get.x", "requeue.x", "admin.requeue"}},
		"*":    {"jobs": {"info", "list", "get.x", "requeue.x", "admin.requeue"}},
	} {
		p, err := g.Requeuer(queue)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"jobs", "jobs-dead", "other"} {
			if queue == "*" {
				q = "jobs"
			}
			for _, verb := range all {
				subject := "a.pq." + q + "." + verb
				if got, want := allowed(p.Publish, subject), slices.Contains(may[q], verb); got != want {
					t.Errorf("requeuer of %s publishes %s: %v, want %v", queue, subject, got, want)
				}
			}
		}
		if !allowed(p.Subscribe, "_INBOX.x.y") {
			t.Errorf("requeuer of %s hears no replies", queue)
		}
	}
	if p, err := g.Requeuer("jobs.>"); err == nil {
		t.Errorf("requeuer of a pattern: %+v, want an error", p)
	}
}

func TestBridgePermissions(t *testing.T) {
	g := grammar(t, "a.pq")
	p := g.Bridge()
	for _, subject := range []string{g.All(), g.Acks(), g.AcksOf("c1"), "a.pq.jobs.push", "a.pq.*.push.*",
		"$SRV.PING", "$SRV.INFO.pq", "$SRV.STATS.pq.id", "_INBOX.x.*"} {
		if !allowed(p.Subscribe, subject) {
			t.Errorf("the bridge cannot subscribe to %s", subject)
		}
	}
	for _, subject := range []string{"_INBOX.x.1", "a.pq.jobs.event.dead", "$SRV.PING.pq", "_R_.x.y", "$SYS.REQ.USER.INFO"} {
		if !allowed(p.Publish, subject) {
			t.Errorf("the bridge cannot publish %s", subject)
		}
	}
	for _, subject := range []string{"a.pq.jobs.push", "other", "$SYS.REQ.SERVER.PING"} {
		if allowed(p.Publish, subject) {
			t.Errorf("the bridge may publish %s", subject)
		}
	}
	for _, subject := range []string{"a.other.push", "other", "$SYS.REQ.SERVER.PING", "$JS.API.INFO", "_R_.x.y"} {
		if allowed(p.Subscribe, subject) {
			t.Errorf("the bridge may subscribe to %s", subject)
		}
	}
}

// The patterns that the bridge subscribes to hold what they are for.
func TestPatterns(t *testing.T) {
	g := grammar(t, "a.pq")
	for text, s := range wellFormed {
		text = "a.pq." + text
		if !Covers(g.All(), text) {
			t.Errorf("%s does not cover %s", g.All(), text)
		}
		if got, want := Covers(g.Acks(), text), s.Verb == Ack; got != want {
			t.Errorf("%s covers %s: %v, want %v", g.Acks(), text, got, want)
		}
		if got, want := Covers(g.AcksOf("c1"), text), s.Verb == Ack && s.Conn == "c1"; got != want {
			t.Errorf("%s covers %s: %v, want %v", g.AcksOf("c1"), text, got, want)
		}
		if got, want := Covers(g.Events("*"), text), s.Verb == Event; got != want {
			t.Errorf("%s covers %s: %v, want %v", g.Events("*"), text, got, want)
		}
		if got, want := Covers(g.Events("jobs"), text), s.Verb == Event && s.Queue == "jobs"; got != want {
			t.Errorf("%s covers %s: %v, want %v", g.Events("jobs"), text, got, want)
		}
	}
}

// The pattern of a verb matches its requests, and those that differ from them in one token.
func TestVerbPattern(t *testing.T) {
	g := grammar(t, "pq")
	together := map[Verb]string{PopMax: "*.pop.*", PeekMin: "*.peek.*", AdminConfig: "*.admin.*", AdminRequeue: "*.admin.*", AdminKey: "*.admin.key.*",
		AdminSchedule: "*.admin.schedule.>", AdminScheduleRun: "*.admin.schedule.>", AdminLinkPause: "*.admin.link.>", SysInfo: "_sys.*", SysClusterReplace: "_sys.cluster.*"}
	for v, want := range together {
		if got := v.Pattern(); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
	for text, s := range wellFormed {
		if s.Verb != Push && !Covers(s.Verb.Pattern(), text) {
			t.Errorf("%s does not cover %s", s.Verb.Pattern(), text)
		}
		for v := Push; v < Verbs; v++ {
			if Covers(v.Pattern(), text) && v.Pattern() != s.Verb.Pattern() && !(s.Verb >= SysList && v == List || s.Verb >= SysList && v == Info) {
				t.Errorf("%s, the pattern of %s, covers %s", v.Pattern(), v, text)
			}
		}
	}
	if p := Push.Pattern(); !Covers(p, g.Rest("pq.jobs.push")) {
		t.Errorf("the pattern of pushes is %s", p)
	}
	if p := Verb(0).Pattern() + Verb(Verbs).Pattern(); p != "" {
		t.Errorf("what is no verb has the pattern %s", p)
	}
}

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "a.b", false}, {"a.b", "a", false}, {"a.b", "a.b", true},
		{"*", "a", true}, {"*", "*", true}, {"a", "*", false}, {"*", "a.b", false}, {"*.b", "a.b", true}, {"a.*", "a", false},
		{">", "a", true}, {">", "a.b.c", true}, {">", ">", true}, {">", "*.a", true}, {"a.>", "a", false}, {"a.>", "a.b", true},
		{"a.>", "a.b.>", true}, {"a.>", "a.*", true}, {"a.*", "a.>", false}, {"*", ">", false}, {"a.>", ">", false}, {"a.*.c", "a.b.c.d", false},
		{"a.*.c", "a..c", false}, {"a.>", "a.", false},
	} {
		if got := Covers(tc.pattern, tc.subject); got != tc.want {
			t.Errorf("%s covers %s: %v", tc.pattern, tc.subject, got)
		}
	}
}

func TestBeyond(t *testing.T) {
	needed := grammar(t, "pq").Bridge()
	if more := needed.Beyond(needed); len(more.Publish)+len(more.Subscribe) > 0 {
		t.Errorf("what is needed goes beyond itself: %v", more)
	}
	p := Permissions{Publish: []string{"_INBOX.pqd.>", ">", "pq.*.push"}, Subscribe: []string{"pq.jobs.>", "orders.*", "_INBOX.*"}}
	more := p.Beyond(needed)
	if !slices.Equal(more.Publish, []string{">", "pq.*.push"}) || !slices.Equal(more.Subscribe, []string{"orders.*"}) {
		t.Errorf("%+v", more)
	}
}

func TestWithInbox(t *testing.T) {
	p, err := grammar(t, "pq").Viewer("*")
	if err != nil {
		t.Fatal(err)
	}
	own, err := p.WithInbox("ada")
	if err != nil || !slices.Equal(own.Subscribe, []string{"_INBOX.ada.>", "pq.*.event.*"}) || !slices.Equal(own.Publish, p.Publish) || p.Subscribe[0] != Inbox {
		t.Errorf("%+v, %v of %+v", own, err, p)
	}
	if !allowed(grammar(t, "pq").Bridge().Publish, "_INBOX.ada.x.y") {
		t.Error("the bridge cannot answer there")
	}
	for _, bad := range []string{"", "a.b", "*", ">", "a b"} {
		if own, err := p.WithInbox(bad); err == nil {
			t.Errorf("user %q has %+v", bad, own)
		}
	}
}

func TestCheckPattern(t *testing.T) {
	for pattern, good := range map[string]bool{
		"a": true, "a.*.b": true, "a.>": true, ">": true, "_INBOX_app.>": true, "$JS.ACK.>": true,
		"": false, "a.": false, ".a": false, "a..b": false, ">.a": false, "a b": false, "a\t.b": false,
	} {
		if err := CheckPattern(pattern); (err == nil) != good {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// A connection hears the settlements of its own leases, and the pattern of all of them
// covers those of every connection.
func TestAcks(t *testing.T) {
	t.Parallel()
	g := grammar(t, "pq")
	own, other := "pq.jobs.ack.c1.token", "pq.jobs.ack.c2.token"
	if pattern := g.AcksOf("c1"); !Covers(pattern, own) || Covers(pattern, other) {
		t.Errorf("%s covers %s: %t, and %s: %t", pattern, own, Covers(pattern, own), other, Covers(pattern, other))
	}
	if pattern := g.Acks(); !Covers(pattern, own) || !Covers(pattern, other) || Covers(pattern, "pq.jobs.push") {
		t.Errorf("%s is not the pattern of all settlements", pattern)
	}
}
