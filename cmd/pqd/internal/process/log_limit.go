package process

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A message is logged at most logMost times in logEvery. Clients can cause some of them, and
// could fill a disk with them.
const (
	logMost  = 10
	logEvery = time.Minute
)

// maxMessages bounds the messages that are remembered.
const maxMessages = 1000

// limitedLog leaves out repeated messages, except for debugging. The next message that is logged has the number of
// those left out. The limit holds for all packages together. A package may log its own problems less often, as
// kv/local does.
type limitedLog struct {
	slog.Handler
	repeats *repeats // shared by all loggers that come from one
}

// repeats counts lines by their message. Most messages are fixed texts, with everything
// variable in the attributes.
type repeats struct {
	mu     sync.Mutex
	counts map[string]*tally
}

// tally is how often a message was logged, and left out, since a time.
type tally struct {
	since       time.Time
	times, left int
}

func newLimitedLog(to slog.Handler) *limitedLog {
	return &limitedLog{to, &repeats{counts: make(map[string]*tally)}}
}

// Handle implements slog.Handler.
func (l *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		left, passes := l.repeats.count(r.Message, r.Time)
		if !passes {
			return nil
		}
		if left > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", left))
		}
	}
	return l.Handler.Handle(ctx, r)
}

func (p *repeats) count(message string, now time.Time) (left int, passes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.counts[message]
	if t == nil {
		if len(p.counts) == maxMessages {
			clear(p.counts)
		}
		t = &tally{since: now}
		p.counts[message] = t
	}
	if now.Sub(t.since) >= logEvery {
		left = t.left
		*t = tally{since: now}
	}
	if t.times == logMost {
		t.left++
		return 0, false
	}
	t.times++
	return left, true
}

// WithAttrs implements slog.Handler.
func (l *limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedLog{l.Handler.WithAttrs(attrs), l.repeats}
}

// WithGroup implements slog.Handler.
func (l *limitedLog) WithGroup(name string) slog.Handler {
	return &limitedLog{l.Handler.WithGroup(name), l.repeats}
}
