package client

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// mailbox receives the answers to all requests of a client. nats.go's own requests do not suffice: they treat every
// answer with status 503 as the server's and hide its headers, end with the first message of a batch, and drop late
// answers, leased items included.
//
// An answer that is under way when the connection breaks never arrives. So the mailbox tells all open requests when
// there is a new connection.
//
// The last token of a reply subject is random: bridges answer to the inbox that a request names, so a client that
// could guess another client's inbox could send it answers.
type mailbox struct {
	nc     *nats.Conn
	acks   ackSubjects
	prefix string // of the reply subjects, with the dot

	admitted atomic.Uint64 // the number of the connection on which the server lets the mailbox receive
	shallow  atomic.Bool   // the server lets it receive only on subjects of one more token

	// Used only by the goroutine that asks the server.
	sub   *nats.Subscription
	known error // its last refusal

	mu        sync.Mutex
	watched   bool
	open      map[string]addressee                 // by the last token
	ending    map[*nats.Subscription]chan struct{} // of waits for which an answer may be on its way
	asking    *admission                           // nil: no question is under way
	refusal   error                                // why nothing may be sent on the connection of this number
	refusedOn uint64
}

// addressee is a request that waits for answers. Its functions must not block.
type addressee struct {
	deliver   func(*nats.Msg)
	reconnect func() // called when answers to earlier attempts may be lost; may be nil
}

func newMailbox(nc *nats.Conn, acks ackSubjects) *mailbox {
	return &mailbox{nc: nc, acks: acks, prefix: nc.NewInbox() + ".", open: make(map[string]addressee), ending: make(map[*nats.Subscription]chan struct{})}
}

// receive returns a new reply subject. Messages on it go to the addressee until the caller calls stop. Requests may
// name it once the mailbox is admitted.
func (b *mailbox) receive(a addressee) (reply string, stop func()) {
	token := rand.Text()
	return b.prefix + token, b.enter(token, a)
}

// listen is receive, in the form of wait.
func (b *mailbox) listen(a addressee) (reply string, end func(answered bool), err error) {
	reply, stop := b.receive(a)
	return reply, func(bool) { stop() }, nil
}

// enter enters an addressee under a token, until the caller calls leave.
func (b *mailbox) enter(token string, a addressee) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.watched {
		b.watched = true
		go b.watch(b.nc.StatusChanged(nats.CONNECTED, nats.CLOSED))
	}
	b.open[token] = a
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.open, token)
	}
}

func (b *mailbox) deliver(m *nats.Msg) {
	b.mu.Lock()
	token := strings.TrimPrefix(m.Subject, b.prefix)
	a, open := b.open[token]
	b.mu.Unlock()
	if open {
		a.deliver(m)
		return
	}
	for _, one := range unbundled(m) {
		b.giveBack(one)
	}
}

// watch tells open requests of each new connection, and of the end of all connections: what they send then fails.
func (b *mailbox) watch(statuses chan nats.Status) {
	for status := range statuses {
		if status == nats.CLOSED {
			b.nc.RemoveStatusListener(statuses) // closes the channel
		} else {
			_ = b.admit(context.Background()) // if it fails, further questions fail, too
		}
		for _, reconnect := range b.waiting() {
			reconnect()
		}
	}
}

// waiting returns the functions of the open requests to call after a reconnect.
func (b *mailbox) waiting() (all []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.open {
		if a.reconnect != nil {
			all = append(all, a.reconnect)
		}
	}
	return all
}

// giveBack returns the item of a late answer to its queue.
func (b *mailbox) giveBack(m *nats.Msg) {
	if ack := b.acks.leaseOf("", m); ack.own != "" && m.Header.Get(protocol.HeaderID) != "" {
		b.back(ack.own)
	}
}

// back gives back an item with which nobody has begun, so that others need not wait for the end of its lease. If
// that fails, the lease does run out.
func (b *mailbox) back(ack string) { _ = b.nc.Publish(ack, []byte(protocol.SettleBack)) }
