package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// A repeated message is logged a few times a minute, whichever logger it comes from, and
// the messages left out are counted. Other messages and those at level debug are not
// limited.
func TestLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := NewLog(settings.Settings{Log: "text", LogLevel: -4}, &out)
		count := func(text string) int { return strings.Count(out.String(), text) }
		for i := range 5 * logMost {
			log.With("n", i).Warn("again")
			log.WithGroup("g").Error("and again", "n", i)
			log.Info("news")
			log.Debug("detail")
		}
		log.Error("once")
		for text, want := range map[string]int{`msg=again `: logMost, `msg="and again" `: logMost, "msg=news": logMost, "msg=detail": 5 * logMost, "msg=once": 1, "left_out": 0} {
			if n := count(text); n != want {
				t.Errorf("%q was logged %d times, expected %d", text, n, want)
			}
		}
		<-time.After(logEvery) // of the bubble's time
		log.Warn("again")
		log.Warn("again")
		if n := count(fmt.Sprintf("msg=again left_out=%d\n", 4*logMost)); n != 1 {
			t.Errorf("what was left out was counted %d times:\n%s", n, out.String())
		}
		if n := count(`msg=again `) + count("msg=again\n"); n != logMost+2 {
			t.Errorf("logged %d times", n)
		}
	})
}

// However many messages there are, few are remembered, and all are logged.
func TestLogRemembersFewMessages(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	limited := newLimitedLog(slog.NewTextHandler(&out, nil))
	log := slog.New(limited)
	const messages = 3*maxMessages + 1
	for i := range messages {
		log.Warn(fmt.Sprint("message ", i))
	}
	if n := strings.Count(out.String(), "\n"); n != messages {
		t.Errorf("%d lines, expected %d", n, messages)
	}
	if n := len(limited.repeats.counts); n > maxMessages {
		t.Errorf("%d messages are remembered, expected %d at most", n, maxMessages)
	}
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
