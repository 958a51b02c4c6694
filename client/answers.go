package client

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// answers collects the messages that answer one request. Adding one never blocks the
// mailbox.
type answers struct {
	mailbox *mailbox
	more    chan struct{} // has a value when there may be messages

	mu     sync.Mutex
	here   []*nats.Msg
	closed bool
}

func newAnswers(b *mailbox) *answers {
	return &answers{mailbox: b, more: make(chan struct{}, 1)}
}

func (a *answers) add(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.mailbox.giveBack(m)
		return
	}
	a.here = append(a.here, m)
	notify(a.more)
}

// next returns the next message, nil when there is none yet.
func (a *answers) next() *nats.Msg {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.here) == 0 {
		return nil
	}
	m := a.here[0]
	a.here = a.here[1:]
	return m
}

// close gives back the items that next has not returned.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, m := range a.here {
		a.mailbox.giveBack(m)
	}
	a.here = nil
}
