package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// limited is a log of the program, and its lines.
type limited struct {
	*slog.Logger
	*testing.T
	out text
}

// text is what a log has written. A timer writes, too.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *text) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(line)
}

func (o *text) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// limit runs a test with a log and a clock of its own.
func limit(t *testing.T, test func(*limited)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &limited{T: t}
		l.Logger = NewLog(settings.Settings{Log: "text", LogLevel: -4}, &l.out)
		test(l)
		l.passes() // no timer is left
	})
}

// remembered is how many messages are remembered.
func (l *limited) remembered() int {
	p := l.Handler().(*limitedLog).repeats
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}

// passes lets the time pass after which lines count no more.
func (l *limited) passes() {
	<-time.After(logEvery) // of the bubble's time
	synctest.Wait()
}

// expect fails unless the log has texts so many times.
func (l *limited) expect(want map[string]int) {
	l.Helper()
	for line, want := range want {
		if n := strings.Count(l.out.String(), line); n != want {
			l.Errorf("%q was logged %d times, expected %d", line, n, want)
		}
	}
}

// A repeated message is logged a few times a minute, whichever logger it comes from, and after the minute one line
// has the number of those left out. Other messages and those at level debug are not limited.
func TestLogIsLimited(t *testing.T) {
	t.Parallel()
	limit(t, func(l *limited) {
		for i := range 50 {
			l.With("n", i).Warn("again")
			l.WithGroup("g").Error("and again", "queue", i)
			l.Info("news")
			l.Debug("detail")
		}
		l.Error("once")
		l.expect(map[string]int{`msg=again `: 10, `msg="and again" `: 10, "msg=news": 10, "msg=detail": 50, "msg=once": 1, "left_out": 0})
		l.passes()
		l.expect(map[string]int{"level=WARN msg=\"left out lines of the log\" of=again left_out=40\n": 1, `level=ERROR msg="left out lines of the log" of="and again" left_out=40`: 1,
			`level=INFO msg="left out lines of the log" of=news left_out=40`: 1, "left_out": 3})
		l.Warn("again")
		l.passes()
		l.expect(map[string]int{"msg=again": 11, "left_out": 3})
	})
}

// Nobody can hide the lines of others: not by many lines about one queue, with whatever names of a sender, nor, where there are
// tenants, by lines about many queues.
func TestLogOfOthers(t *testing.T) {
	t.Parallel()
	const act = "administrative act: admin.purge"
	limit(t, func(l *limited) {
		for i := range 5000 {
			l.Info(act, "queue", "mine", "reply_prefix", "_INBOX.mallory", "removed", i)
		}
		l.expect(map[string]int{"queue=mine": 10})
		l.With("queue", "mine").Info(act, "reply_prefix", "_INBOX.root")
		l.expect(map[string]int{"queue=mine": 11})
		for i := range 5000 {
			l.Info(act, "queue", "mine", "reply_prefix", fmt.Sprint("_INBOX.x", i))
			l.Info(act, "queue", fmt.Sprint("acme.mine-", i), "reply_prefix", fmt.Sprint("_INBOX.x", i))
		}
		l.expect(map[string]int{"queue=mine": 100, "queue=acme.mine": 100})
		l.Info(act, "queue", "jobs", "reply_prefix", "_INBOX.root")
		l.Info(act, "queue", "bolt.jobs", "reply_prefix", "_INBOX.root")
		l.Warn("a source stopped", "queue", "mine", "source", "orders")
		l.Info("administrative act: admin.pause", "queue", "mine", "reply_prefix", "_INBOX.mallory")
		l.expect(map[string]int{"queue=jobs": 1, "queue=bolt.jobs": 1, "source=orders": 1, "admin.pause": 1})
		l.passes()
		of := `msg="left out lines of the log" of="administrative act: admin.purge"`
		l.expect(map[string]int{of + " queue=mine reply_prefix=_INBOX.mallory left_out=4990\n": 1, of + " queue=mine left_out=4911\n": 1, of + " tenant=acme left_out=4900\n": 1, "left_out": 3})
	})
}

// Many queues share the lines there are, and one without lines so far has its share, however many there were before.
func TestLogOfManyQueues(t *testing.T) {
	t.Parallel()
	limit(t, func(l *limited) {
		n := 0
		line := func(queue string) {
			n++
			l.Warn("act", "queue", queue, "reply_prefix", n)
		}
		for i := range 999 {
			for range max(2, 120-i) {
				line(fmt.Sprint("queue-", i))
			}
		}
		if n := strings.Count(l.out.String(), "\n"); n < 1000 || n > 6000 {
			l.Errorf("%d lines, expected a few thousand", n)
		}
		for range 3 {
			line("new")
		}
		for i := range 5000 {
			line(fmt.Sprint("more-", i))
		}
		l.expect(map[string]int{"queue=queue-0 ": 100, "queue=queue-500 ": 1, "queue=new": 1, "queue=more": 1})
		l.passes()
		l.expect(map[string]int{"of=act queue=new left_out=2\n": 1, "of=act left_out=4999\n": 1})
	})
}

// However many messages there are, few are remembered, and all are logged.
func TestLogRemembersFewMessages(t *testing.T) {
	t.Parallel()
	limit(t, func(l *limited) {
		for range 12 {
			l.Warn("first")
		}
		const messages = 3001
		for i := range messages {
			l.Warn(fmt.Sprint("message ", i))
		}
		l.expect(map[string]int{`msg="message `: messages, "of=first left_out=2\n": 1})
		if n := l.remembered(); n > 1000 {
			l.Errorf("%d messages are remembered, expected 1000 at most", n)
		}
		l.passes()
		if n := l.remembered(); n > 0 {
			l.Errorf("%d messages are remembered after their time", n)
		}
	})
}

// talkative is an error that says more than its text when it is formatted with all details, as errors of Pebble do.
type talkative struct{}

func (talkative) Error() string { return "no space left" }

func (e talkative) Format(s fmt.State, _ rune) {
	fmt.Fprint(s, e.Error())
	if s.Flag('+') {
		fmt.Fprint(s, "\ngoroutine 1 [running]:")
	}
}

// A log has what an error says, and no stack.
func TestLogOfError(t *testing.T) {
	t.Parallel()
	for _, format := range []settings.Settings{{Log: "text"}, {Log: "json"}} {
		var log bytes.Buffer
		NewLog(format, &log).Error("flush failed", "err", talkative{}, "because", fmt.Errorf("disk: %w", talkative{}), slog.Group("of", "err", talkative{}))
		if out := log.String(); strings.Contains(out, "goroutine") || strings.Count(out, "no space left") != 3 {
			t.Errorf("%s: %s", format.Log, out)
		}
	}
}
