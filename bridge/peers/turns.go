package peers

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Turns keep bridges that pop one queue from conflicting with each other.
//
// All of them pop the items at one end of the queue. If their transactions run at the same
// time, one commits and the others fail by a conflict. So bridges form a line after a
// conflict. Each bridge announces that it wants to pop. When the bridges before it are
// done, it pops for all requests that have arrived by then, and announces that it is done.
//
// Correctness does not depend on the announcements. The others do not wait for a bridge
// whose announcement is lost, and pass over a bridge that takes too long. A bridge
// without a line announces nothing and does not wait.
type Turns struct {
	nc      *nats.Conn
	id      string
	subject string // the queue follows it
	sealer  sealer
	now     func() time.Duration
	log     *slog.Logger

	// Patience is how long a bridge waits for the others. It may be changed until the
	// first call of Lost.
	Patience time.Duration

	mu      sync.Mutex
	sub     *nats.Subscription // nil until a transaction was lost
	lines   map[string]*line   // by queue
	heard   memory
	stopped bool

	saying sync.Mutex    // words leave in the order of their times
	said   time.Duration // when the last one was
}

const (
	// lineTime is how long a line lasts after the last word of another bridge.
	// Beginning one costs a transaction or two.
	lineTime = time.Second

	// turnPatience is how long a bridge waits for the others. It is several times the
	// duration of their transactions, so it matters only when one has died.
	turnPatience = 50 * time.Millisecond

	// maxLines bounds the queues with lines.
	maxLines = 1024
)

// NewTurns returns the turns of a bridge on a store. It does not listen yet.
func NewTurns(nc *nats.Conn, self Identity, store Store, log *slog.Logger) *Turns {
	return &Turns{
		nc: nc, id: self.ID, subject: Inbox(self.StoreID) + ".take.", sealer: newSealer(store.Secret), now: store.Time, log: log,
		Patience: turnPatience, lines: make(map[string]*line), heard: memory{last: make(map[string]time.Duration)},
	}
}

// Inbox returns the prefix of the subjects for messages between the bridges on a store.
// It is an inbox, because bridges have the permissions for inboxes.
func Inbox(storeID string) string { return nats.InboxPrefix + storeID }

// Lost notes that a transaction on the queue lost a conflict with another bridge.
func (t *Turns) Lost(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.sub == nil {
		sub, err := t.nc.Subscribe(t.subject+"*", t.hear)
		if err != nil {
			t.log.Debug("listening to other bridges failed", "error", err)
			return
		}
		t.sub = sub
	}
	now := t.now()
	if t.lines[queue] == nil {
		for name, over := range t.lines {
			if now > over.until && over.turn == nil {
				delete(t.lines, name)
			}
		}
		if len(t.lines) >= maxLines {
			return
		}
		t.lines[queue] = &line{}
	}
	t.lines[queue].until = now + lineTime
}

// hear handles a word of another bridge.
func (t *Turns) hear(m *nats.Msg) {
	queue := strings.TrimPrefix(m.Subject, t.subject)
	w, ok := t.sealer.open(queue, m.Data)
	if !ok || w.id == t.id {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.heard.hears(w, now) {
		return
	}
	l := t.lines[queue]
	if l == nil {
		return
	}
	l.until = now + lineTime
	l.leave(w.id)
	if w.kind == wordWant {
		l.join(w.id)
	}
	l.advance(t.id)
}

// Await returns when it is this bridge's turn to pop a queue.
func (t *Turns) Await(queue string) {
	turn := t.join(queue)
	if turn == nil {
		return
	}
	t.say(queue, wordWant)
	late := time.NewTimer(t.Patience)
	defer late.Stop()
	select {
	case <-turn:
	case <-late.C:
		t.skip(queue)
	}
}

// join puts this bridge in the line. Without one there is no turn to wait for.
func (t *Turns) join(queue string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[queue]
	if l == nil {
		return nil
	}
	if t.now() > l.until {
		delete(t.lines, queue)
		return nil
	}
	l.join(t.id)
	l.turn = make(chan struct{})
	l.advance(t.id)
	return l.turn
}

func (t *Turns) skip(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[queue]; l != nil {
		l.skipTo(t.id)
	}
}

// Done passes the turn to the next bridge.
func (t *Turns) Done(queue string) {
	t.mu.Lock()
	l := t.lines[queue]
	waited := l != nil && l.turn != nil
	if waited {
		l.turn = nil
		l.leave(t.id)
	}
	t.mu.Unlock()
	if waited {
		t.say(queue, wordDone)
	}
}

// Stop ends listening.
func (t *Turns) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.sub == nil {
		return
	}
	if err := t.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
		t.log.Warn("unsubscribing failed", "subject", t.sub.Subject, "error", err)
	}
}

func (t *Turns) say(queue string, kind byte) {
	t.saying.Lock()
	defer t.saying.Unlock()
	t.said = max(t.said+1, t.now())
	if err := t.nc.Publish(t.subject+queue, t.sealer.seal(queue, word{kind: kind, at: t.said, id: t.id})); err != nil {
		t.log.Debug("telling other bridges failed", "error", err)
	}
}
