package local

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// noticeEvery is how often the same is logged while it lasts.
const logEvery = time.Minute

// notices log what goes wrong in the background. What goes wrong again and again
// is logged once in a while.
type backgroundLog struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	last map[string]lastLogged // by kind, of which there are not many
}

type lastLogged struct {
	at     time.Time
	missed int // since then
}

func newBackgroundLog(log *slog.Logger, now func() time.Time) *backgroundLog {
	return &backgroundLog{log: log, now: now, last: make(map[string]lastLogged)}
}

func (n *backgroundLog) error(text string, attrs ...any) { n.say(slog.LevelError, text, text, attrs) }

func (n *backgroundLog) warn(text string, attrs ...any) { n.say(slog.LevelWarn, text, text, attrs) }

// say logs a text, if nothing of its kind was logged a short time ago.
func (n *backgroundLog) say(level slog.Level, kind, text string, attrs []any) {
	if missed, due := n.due(kind); due {
		if missed > 0 {
			attrs = append(attrs, "not logged", missed)
		}
		n.log.Log(context.Background(), level, "kv/local: "+text, attrs...)
	}
}

func (n *backgroundLog) due(kind string) (missed int, due bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, now := n.last[kind], n.now()
	if !last.at.IsZero() && now.Sub(last.at) < logEvery {
		last.missed++
		n.last[kind] = last
		return 0, false
	}
	n.last[kind] = lastLogged{at: now}
	return last.missed, true
}

// over says that what was wrong is not any more.
func (n *backgroundLog) recovered(text string) { n.log.Info("kv/local: " + text) }
