package client

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
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

// waits is the token of the mailbox under which waiting requests have their reply subjects.
const waits = "w."

// wait is receive for a request that waits. Its reply subject has a subscription of its own, which ends with the
// wait: so the server can tell the bridge that nobody waits any more, and no item is taken for it. A function of an
// addressee must not call wait. With an error, end is nil.
func (b *mailbox) wait(a addressee) (reply string, end func(answered bool), err error) {
	if b.shallow.Load() {
		return b.listen(a)
	}
	token := waits + rand.Text()
	sub, err := b.nc.Subscribe(b.prefix+token, a.deliver)
	if err != nil {
		return "", nil, err
	}
	leave := b.enter(token, a)
	return b.prefix + token, func(answered bool) {
		leave()
		b.endWait(sub, answered)
	}, nil
}

// endWait ends the subscription of a wait. An answer may be on its way to an unanswered wait: it still arrives, and
// its item is given back. Without a connection nothing can arrive, and the next connection must not restore the
// subscription.
func (b *mailbox) endWait(sub *nats.Subscription, answered bool) {
	if _, up := b.connection(); !up || answered {
		_ = sub.Unsubscribe()
		return
	}
	ended := make(chan struct{})
	b.mu.Lock()
	b.ending[sub] = ended
	b.mu.Unlock()
	sub.SetClosedHandler(func(string) {
		b.mu.Lock()
		delete(b.ending, sub)
		b.mu.Unlock()
		close(ended)
	})
	if err := sub.Drain(); err != nil { // the connection is closed, and nothing is left
		b.mu.Lock()
		delete(b.ending, sub)
		b.mu.Unlock()
	}
}

// awaitEnds waits until no answer can arrive any more for the waits that have ended, and until the server has the
// items that they gave back. If a program ends earlier, its leases run out.
func (b *mailbox) awaitEnds(ctx context.Context) {
	b.mu.Lock()
	ending := slices.Collect(maps.Values(b.ending))
	b.mu.Unlock()
	if len(ending) == 0 {
		return
	}
	for _, ended := range ending {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
	_ = b.nc.FlushWithContext(ctx) // if it fails, there is no connection on which something could be given back
}

// inbox has the reply subjects of the waits of a Consume under one subscription, which lasts as long as the Consume.
// So the bridge sees one client that is there or not, whatever its workers do.
type inbox struct {
	mailbox *mailbox

	mu  sync.Mutex
	on  uint64 // the number of the connection
	sub *nats.Subscription
	of  string // all subjects, in the mailbox, with the dot
	n   int    // waits so far
	end bool
}

// wait is like the mailbox's. On a new connection the inbox has another subject.
func (r *inbox) wait(a addressee) (reply string, end func(answered bool), err error) {
	b := r.mailbox
	if b.shallow.Load() {
		return b.wait(a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end {
		return "", nil, context.Canceled
	}
	if n, _ := b.connection(); r.sub == nil || n != r.on {
		r.leave()
		r.on, r.of = n, strings.TrimSuffix(waits, ".")+rand.Text()+"."
		if r.sub, err = b.nc.Subscribe(b.prefix+r.of+"*", b.deliver); err != nil {
			r.sub = nil
			return "", nil, err
		}
	}
	r.n++
	token := r.of + strconv.Itoa(r.n)
	leave := b.enter(token, a)
	return b.prefix + token, func(bool) { leave() }, nil
}

// leave ends the subscription.
func (r *inbox) leave() {
	if r.sub != nil {
		r.mailbox.endWait(r.sub, false)
		r.sub = nil
	}
}

// close ends all waits, so no item is taken for them.
func (r *inbox) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = true
	r.leave()
}
