package client

import (
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// mailbox receives the answers to all requests of a client. nats.go's own
// requests will not do: they take an answer with status 503 for the server's
// and hide what it says, they end with the first message of a batch, and what
// arrives late they drop, a leased item included.
type mailbox struct {
	nc *nats.Conn

	mu     sync.Mutex
	sub    *nats.Subscription
	prefix string // of the reply subjects, with the dot
	last   uint64
	open   map[string]func(*nats.Msg) // by what follows the prefix
}

func newMailbox(nc *nats.Conn) *mailbox {
	return &mailbox{nc: nc, open: make(map[string]func(*nats.Msg))}
}

// receive makes up a reply subject and has what arrives there handed to fn,
// which must not block, until stop is called.
func (b *mailbox) receive(fn func(*nats.Msg)) (reply string, stop func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sub == nil {
		prefix := b.nc.NewInbox() + "."
		sub, err := b.nc.Subscribe(prefix+"*", b.deliver)
		if err != nil {
			return "", nil, err
		}
		b.sub, b.prefix = sub, prefix
	}
	b.last++
	token := strconv.FormatUint(b.last, 36)
	b.open[token] = fn
	stop = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, token)
	}
	return b.prefix + token, stop, nil
}

func (b *mailbox) deliver(m *nats.Msg) {
	b.mu.Lock()
	token := strings.TrimPrefix(m.Subject, b.prefix)
	fn := b.open[token]
	b.mu.Unlock()
	if fn != nil {
		fn(m)
		return
	}
	giveBack(m)
}

// giveBack returns an item that nobody waits for any more, so that others need
// not wait for its lease to run out. When that fails, it does run out.
func giveBack(m *nats.Msg) {
	if m.Reply != "" && m.Header.Get(headerID) != "" {
		_ = m.Respond([]byte(settleNack))
	}
}
