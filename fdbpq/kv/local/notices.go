package local

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// noticeEvery is how often the same is logged while it lasts.
const noticeEvery = time.Minute

// notices log what goes wrong in the background. What goes wrong again and again
// is logged once in a while.
type notices struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	last map[string]notice // by kind, of which there are not many
}

type notice struct {
	at     time.Time
	missed int // since then
}

func newNotices(log *slog.Logger, now func() time.Time) *notices {
	return &notices{log: log, now: now, last: make(map[string]notice)}
}

func (n *notices) error(text string, attrs ...any) { n.say(slog.LevelError, text, text, attrs) }

func (n *notices) warn(text string, attrs ...any) { n.say(slog.LevelWarn, text, text, attrs) }

// say logs a text, if nothing of its kind was logged a short time ago.
func (n *notices) say(level slog.Level, kind, text string, attrs []any) {
	if missed, due := n.due(kind); due {
		if missed > 0 {
			attrs = append(attrs, "not logged", missed)
		}
		n.log.Log(context.Background(), level, "kv/local: "+text, attrs...)
	}
}

func (n *notices) due(kind string) (missed int, due bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, now := n.last[kind], n.now()
	if !last.at.IsZero() && now.Sub(last.at) < noticeEvery {
		last.missed++
		n.last[kind] = last
		return 0, false
	}
	n.last[kind] = notice{at: now}
	return last.missed, true
}

// over says that what was wrong is not any more.
func (n *notices) over(text string) { n.log.Info("kv/local: " + text) }
