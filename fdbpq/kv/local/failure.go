package local

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// failure is why no transaction may succeed any more.
type failure struct {
	reason atomic.Pointer[error] // nil: they may
	fatal  func(error)
}

// err returns the reason, or nil.
func (f *failure) err() error {
	if reason := f.reason.Load(); reason != nil {
		return *reason
	}
	return nil
}

// set makes all transactions fail from now on.
func (f *failure) set(err error) {
	if f.reason.CompareAndSwap(nil, &err) {
		f.fatal(err)
	}
}

// exit ends the process by a panic that cannot be recovered.
func exit(err error) {
	go panic(fmt.Errorf("kv/local: answered writes may be lost, ending the process: %w", err))
	select {}
}

// unavailable is the error of a transaction that certainly did not commit, and may be tried again.
func unavailable(err error) error { return fmt.Errorf("%w: %w", kv.ErrUnavailable, err) }

// logEvery is the shortest interval between messages of the same kind.
const logEvery = time.Minute

// backgroundLog logs problems of background work, a repeated problem at most once in logEvery. The limit of pqd's
// log does not replace it: one kind of problem may have several texts, and other programs use the engine, too.
type backgroundLog struct {
	log  *slog.Logger
	now  func() time.Time
	mu   sync.Mutex
	last map[string]lastLogged // by kind; there are few
}

type lastLogged struct {
	at     time.Time
	missed int // messages left out since then
}

func newBackgroundLog(log *slog.Logger, now func() time.Time) *backgroundLog {
	return &backgroundLog{log: log, now: now, last: make(map[string]lastLogged)}
}

func (n *backgroundLog) error(text string, attrs ...any) { n.say(slog.LevelError, text, text, attrs) }

func (n *backgroundLog) warn(text string, attrs ...any) { n.say(slog.LevelWarn, text, text, attrs) }

// say logs a text, unless one of its kind was logged within logEvery.
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

// recovered logs the end of a problem.
func (n *backgroundLog) recovered(text string) { n.log.Info("kv/local: " + text) }
