package client

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// mailbox receives the answers to all requests of a client. nats.go's own
// requests do not suffice: they treat every answer with status 503 as the server's
// and hide its headers, end with the first message of a batch, and drop late
// answers, leased items included.
//
// The last token of a reply subject is random: bridges answer to the inbox that a
// request names, so a client that could guess another client's inbox could send it
// answers.
type mailbox struct {
	nc   *nats.Conn
	acks ackSubjects

	mu     sync.Mutex
	sub    *nats.Subscription
	prefix string                     // of the reply subjects, with the dot
	open   map[string]func(*nats.Msg) // by the last token
}

func newMailbox(nc *nats.Conn, acks ackSubjects) *mailbox {
	return &mailbox{nc: nc, acks: acks, open: make(map[string]func(*nats.Msg))}
}

// receive returns a new reply subject. Messages on it go to fn, which must not block, until
// the caller calls stop.
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
	token := rand.Text()
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
	b.giveBack(m)
}

// giveBack returns the item of a late answer to its queue, so that others need not wait for
// its lease to run out. If that fails, the lease does run out.
func (b *mailbox) giveBack(m *nats.Msg) {
	if ack := b.acks.leaseOf("", m); ack != "" && m.Header.Get(protocol.HeaderID) != "" {
		_ = b.nc.Publish(ack, []byte(protocol.SettleNack))
	}
}
