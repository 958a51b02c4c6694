package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/screen"
)

// expectOld expects that no number looks like one of now.
func (f *fakeTop) expectOld(since string) {
	f.t.Helper()
	f.shows("disconnected since " + since)
	for _, line := range f.terminal.Lines()[listFrame-1 : len(f.terminal.Lines())-1] {
		for _, cell := range strings.Fields(line)[min(1, len(strings.Fields(line))):] {
			if cell != "-" && cell != "…" && !strings.HasPrefix(cell, "~") {
				f.t.Errorf("%q looks like a number of now:\n%s", cell, f.terminal.Text())
			}
		}
	}
	f.hides("3 ready", "leased  7 delayed")
}

func TestTopWithoutNATS(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.later(5 * time.Second)
	f.looks = nil
	f.happens(linked{false})
	f.expectOld("12:00:05, 0s: the NATS server is away; numbers from 12:00:05")
	f.later(90 * time.Second)
	f.expectOld("12:00:05, 1m30s: the NATS server is away; numbers from 12:00:05")
	if len(f.looks) != 0 {
		t.Errorf("%d looks without a connection", len(f.looks))
	}
	f.press("p")
	f.press("y")
	if f.model.begins() != nil || f.model.ask != nil {
		t.Error("a change without a connection")
	}
	f.queues["jobs"].Ready = 77
	f.happens(linked{true})
	f.hides("disconnected", "~")
	f.shows("77")
}

// A bridge that is away, or refuses, or is silent.
func TestTopWithoutBridge(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.err = errors.New("nats: no responders available for request")
	f.later(time.Second)
	f.expectOld("12:00:01, 0s: no responders available for request; numbers from 12:00:00")
	f.later(30 * time.Second)
	f.expectOld("12:00:01, 30s")
	if most := 40; len(f.looks) > most {
		t.Errorf("%d looks in 30 s", len(f.looks))
	}
	f.err = nil
	f.later(time.Second)
	f.hides("disconnected", "~")

	f.silent = true // a pqd that stands still
	f.later(4 * time.Second)
	f.later(time.Second)
	f.expectOld("12:00:32, 5s: no answer; numbers from 12:00:32")
}

// Without any answer so far it says that, too.
func TestTopThatNeverSawAnything(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 80, 10)
	f.err = errAway
	f.start()
	f.shows("asking …", "disconnected since 12:00:00, 0s: no answer")
	f.hides("numbers from")
}

// An answer that comes after the connection was lost does not look like one of now.
func TestTopLateAnswer(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.silent = true
	f.later(2 * time.Second)
	l := f.looks[len(f.looks)-1]
	f.happens(linked{false})
	f.queues["jobs"].Ready = 99
	f.happens(seen{look: l, began: f.now, found: f.answer(l)})
	f.expectOld("12:00:02")
	f.shows("~99")
}

// What a user may not do is a note; what it may not see ends top with the reason.
func TestTopWithoutPermission(t *testing.T) {
	t.Parallel()
	denied := errors.New(`nats: permissions violation: Permissions Violation for Publish to "pq._sys.list"`)
	f := smallTop(t)
	f.happens(refused{denied})
	f.shows(`not permitted: permissions violation`)
	if f.model.left {
		t.Error("it ended")
	}
	f = newFakeTop(t, 80, 10)
	f.silent = true
	f.start()
	f.model.update(f.now, refused{denied})
	if !f.model.left || !errors.Is(f.model.denied, denied) {
		t.Error("it went on")
	}
}

func TestTopLeaves(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]screen.Key{
		{"q"}, {screen.CtrlC}, {"p", screen.CtrlC}, {"/", screen.CtrlC}, {"?", screen.CtrlC}, {screen.Enter, "q"}, {screen.Enter, "?", screen.Escape, "q"},
	} {
		f := smallTop(t)
		for _, key := range keys {
			if f.model.left {
				t.Errorf("%q: it left before", keys)
			}
			f.model.update(f.now, key)
		}
		if !f.model.left {
			t.Errorf("%q: it has not left", keys)
		}
	}
	f := smallTop(t)
	f.model.update(f.now, ended{})
	if !f.model.left {
		t.Error("without a terminal it stays")
	}
}

func TestTopHelp(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 100, 30)
	f.add("jobs", 1, 0)
	f.start()
	f.press("?")
	for _, key := range keyHelp {
		f.shows(key[0], key[1])
	}
	f.shows("~ stands before numbers that are old")
	f.press("p") // no key of the list
	f.hides("pause jobs?", keyHelp[0][1])
}
