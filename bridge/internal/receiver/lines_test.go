package receiver

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// tenantOf is the first letter of a subject, if it is small.
func tenantOf(subject string) string {
	if c := subject[:1]; c >= "a" {
		return c
	}
	return ""
}

func message(subject string, size int) *nats.Msg {
	return &nats.Msg{Sub: new(nats.Subscription), Subject: subject, Data: make([]byte, size)}
}

// subjectsOf takes messages until there are none.
func (a *arrivals) subjectsOf() (all []string) {
	for len(a.lines.ready) > 0 {
		for _, m := range a.next(nil) {
			all = append(all, m.Subject)
		}
	}
	return all
}

// A tenant that sends more than is handled gets refusals, and nobody else does. It rests until its messages are handled
// and three times as long as that has taken.
func TestFloodOfTenant(t *testing.T) {
	t.Parallel()
	for what, flood := range map[string]struct{ count, size int }{
		"messages":       {lineMost, 0},
		"bytes":          {4, lineBytes/4 - len("a1")},
		"one large":      {1, lineBytes + 1},
		"larger as well": {2, lineBytes/2 - len("a1")},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			var floods Floods
			var refused []string
			a := arrivals{log: slog.New(slog.NewTextHandler(&log, nil)), tenant: tenantOf, floods: &floods, refuse: func(tenant, subject, reply string) {
				refused = append(refused, tenant+" "+subject+" "+reply)
			}}
			add := func(subject string, want bool) {
				t.Helper()
				if got := a.add(message(subject, flood.size)); got != want {
					t.Errorf("%s: %s is taken: %t", what, subject, got)
				}
				a.tell()
				if tenant := tenantOf(subject); tenant != "" && floods.Refuse(subject, "inbox") == want {
					t.Errorf("%s: the connection leaves %s out: %t", what, subject, want)
				}
			}
			fill := func() {
				t.Helper()
				for range flood.count - 1 {
					a.add(message("a1", flood.size))
				}
				add("a1", true)
				if floods.Any() {
					t.Errorf("%s: a full line is no flood", what)
				}
				add("a2", false)
			}
			handle := func() {
				t.Helper()
				a.subjectsOf()
			}
			fill()
			if messages, _ := a.pending(); messages != flood.count {
				t.Errorf("%s: %d messages are pending, expected %d", what, messages, flood.count)
			}
			for _, other := range []string{"b1", "c1", "C1"} {
				add(other, true)
			}
			if floods.Refuse("C2", "inbox") {
				t.Errorf("%s: what is nobody's is left out", what)
			}
			<-time.After(10 * time.Millisecond)
			add("a2", false)
			handle()
			<-time.After(30*time.Millisecond - 1)
			add("a3", false)
			<-time.After(1)
			add("a4", true)
			if floods.Any() || len(a.lines.flooding) > 0 {
				t.Errorf("%s: there is a flood that has ended", what)
			}
			handle()
			for range 2 { // the line that takes long rests no longer than a second
				fill()
				<-time.After(time.Minute - time.Second)
				handle()
				<-time.After(restMost - 1)
				add("a3", false)
				<-time.After(1)
			}
			if floods.Refuse("b1", "") || floods.Any() {
				t.Errorf("%s: a tenant that sends nothing floods for ever", what)
			}
			if !slices.Contains(refused, "a a2 inbox") || slices.ContainsFunc(refused, func(text string) bool { return text[0] != 'a' }) {
				t.Errorf("%s: refused %v", what, refused)
			}
			if n := strings.Count(log.String(), "tenant=a"); n != 2 { // once a minute
				t.Errorf("%s: said %d times: %s", what, n, &log)
			}
		})
	}
}

// A tenant that floods in another way is refused until what has come is handled, and for a second more.
func TestFloodByWord(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			var floods Floods
			a := arrivals{log: slog.New(slog.NewTextHandler(&log, nil)), tenant: tenantOf, floods: &floods, refuse: func(string, string, string) {}}
			for range waiting {
				a.add(message("a", 0))
			}
			for range 2 {
				a.flood("a")
			}
			if n := strings.Count(log.String(), "tenant=a"); n != 1 {
				t.Errorf("said %d times: %s", n, &log)
			}
			if waiting > 0 {
				<-time.After(time.Minute)
			}
			refused := func(want bool) {
				t.Helper()
				if floods.Refuse("a", "") != want || a.add(message("a", 0)) == want || !a.add(message("b", 0)) {
					t.Errorf("behind %d messages a is refused: %t, or b is", waiting, !want)
				}
			}
			refused(true)
			if got := a.subjectsOf(); len(got) != waiting+1 {
				t.Errorf("handled %v", got)
			}
			<-time.After(restMost - 1)
			refused(true)
			<-time.After(1)
			refused(false)
		})
	}
}

// A tenant that sends too many lines of headers within a second floods, and is refused before anything reads them.
func TestFloodOfHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var floods Floods
		a := arrivals{log: slog.New(slog.DiscardHandler), tenant: tenantOf, floods: &floods, refuse: func(string, string, string) {}}
		a.floods.Headers("a", 10*headersMost) // nobody counts
		count := a.countHeaders
		floods.count(&count)
		for range 3 { // each second counts for itself
			floods.Headers("a", headersMost)
			floods.Headers("A", 2*headersMost) // without a tenant
			if floods.Any() {
				t.Error("as many lines as a tenant may send are a flood")
			}
			<-time.After(time.Second)
		}
		floods.Headers("a", headersMost/2)
		floods.Headers("a", headersMost/2+1)
		if !floods.Refuse("a", "") || floods.Refuse("b", "") {
			t.Error("the tenant is not refused, or another one is")
		}
		<-time.After(restMost)
		if floods.Refuse("a", "") {
			t.Error("the flood has no end")
		}
		if floods.Headers("a", headersMost); floods.Any() {
			t.Error("the lines before the flood count behind it")
		}
	})
}

// Of many tenants the lines are forgotten when they are empty, and no others.
func TestLinesOfManyTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := arrivals{log: slog.New(slog.DiscardHandler), tenant: func(subject string) string { return subject }}
		for range 2 {
			for i := range 3 * linesKept {
				if !a.add(message(fmt.Sprint(i), 0)) {
					t.Fatalf("a message of tenant %d is not taken", i)
				}
			}
			a.flood("flood")
			if got := a.subjectsOf(); len(got) != 3*linesKept || len(a.lines.by) != linesKept || !a.lines.refuses("flood") {
				t.Errorf("%d messages are handled, %d lines are kept, the one of the flood: %t", len(got), len(a.lines.by), a.lines.refuses("flood"))
			}
			<-time.After(restMost)
		}
	})
}

// Tenants take turns, each in the order in which its messages came.
func TestTurns(t *testing.T) {
	t.Parallel()
	a := arrivals{tenant: tenantOf}
	of := make(map[string][]string)
	for _, tenant := range []string{"a", "b", "C"} {
		for i := range 200 {
			subject := fmt.Sprint(tenant, i)
			of[tenant] = append(of[tenant], subject)
			a.add(message(subject, 0))
		}
	}
	first := a.next(nil)
	a.add(message("d0", 0))
	all := a.subjectsOf()
	if len(first) != roundMost || slices.Index(all, "d0") > roundMost {
		t.Errorf("%d messages come before it is looked who has come meanwhile, and %d others before that one", len(first), slices.Index(all, "d0"))
	}
	for _, m := range slices.Backward(first) {
		all = slices.Insert(all, 0, m.Subject)
	}
	for tenant, want := range of {
		if got := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s[:1] != tenant }); !slices.Equal(got, want) {
			t.Errorf("of %s: %v", tenant, got)
		}
	}
	for i := 0; i < 3*turnMost; i += turnMost {
		if turn := all[i : i+turnMost]; slices.ContainsFunc(turn, func(s string) bool { return s[:1] != turn[0][:1] }) || i > 0 && all[i-1][:1] == turn[0][:1] {
			t.Errorf("turn %v", turn)
		}
	}
}

// Who sends large messages has short turns, and the others are looked for soon.
func TestTurnsOfLargeMessages(t *testing.T) {
	t.Parallel()
	a := arrivals{tenant: tenantOf}
	for i := range 12 {
		a.add(message(fmt.Sprint("a", i), turnBytes*2/3))
	}
	a.add(message("b0", 4*turnBytes))
	for i := range 2 {
		a.add(message(fmt.Sprint("c", i), 0))
	}
	first := a.next(nil)
	a.add(message("d0", 0))
	var got []string
	for _, m := range first {
		got = append(got, m.Subject)
	}
	got = append(append(got, "then"), a.subjectsOf()...)
	if want := strings.Fields("a0 a1 b0 then c0 c1 a2 a3 d0 a4 a5 a6 a7 a8 a9 a10 a11"); !slices.Equal(got, want) {
		t.Errorf("the turns are %v, expected %v", got, want)
	}
}

// A mark is passed when the messages before it are handled, in all lines, and those behind it are not.
func TestMarkInLines(t *testing.T) {
	t.Parallel()
	last, lone, passed := new(nats.Msg), new(nats.Msg), false
	a := arrivals{tenant: tenantOf, marks: map[*nats.Msg]*mark{last: {do: func() { passed = true }}, lone: {do: func() { passed = true }}}}
	for i := range 100 {
		a.add(message(fmt.Sprint("a", i), 0))
		if i == 0 {
			a.add(message("b", 0))
		}
	}
	a.add(last)
	for range 100 {
		a.add(message("b behind", 0))
	}
	before := 0
	for len(a.lines.ready) > 0 {
		for _, m := range a.next(nil) {
			switch {
			case m.Sub == nil:
				a.passed(m)
			case m.Subject != "b behind" && passed:
				t.Fatalf("%s comes behind the mark", m.Subject)
			case m.Subject != "b behind":
				before++
			}
		}
	}
	if !passed || before != 101 || len(a.marks) != 1 {
		t.Errorf("the mark was passed: %t, behind %d messages; %d are left", passed, before, len(a.marks)-1)
	}
	passed = false
	if a.add(lone); len(a.lines.ready) != 1 {
		t.Fatal("a mark behind nothing is not there")
	}
	if a.passed(a.next(nil)[0]); !passed || len(a.marks) > 0 {
		t.Error("a mark behind nothing is not passed")
	}
}
