package client

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// waits is the token of the mailbox under which its waits have their reply subjects.
const waits = "w."

// wait is receive for a request that waits. Its reply subject has a subscription of its own, which
// ends with the wait: so the server can tell the bridge that nobody waits any more, and
// nothing is taken for nobody. It must not be called by a function of an addressee.
func (b *mailbox) wait(a addressee) (reply string, end func(answered bool), err error) {
	if b.shallow.Load() {
		reply, stop := b.receive(a)
		return reply, func(bool) { stop() }, nil
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

// endWait ends the subscription of a wait. One that is not answered may be at this moment: what is
// on its way still arrives, and is given back. Without a connection nothing is, and the next one
// must not restore the subscription.
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

// awaitEnds waits until nothing arrives any more for the waits that have ended, and until the server has what they gave back. A
// program that ends before leaves its leases to run out.
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

// room is where the waits of a Consume have their reply subjects: under one subscription, which lasts as long as the
// Consume. It is there or it is not, whatever its workers do.
type room struct {
	mailbox *mailbox

	mu  sync.Mutex
	on  uint64 // the number of the connection
	sub *nats.Subscription
	of  string // all subjects, in the mailbox, with the dot
	n   int    // waits so far
	end bool
}

// wait is like that of a mailbox. On a new connection the room has another subject.
func (r *room) wait(a addressee) (reply string, end func(answered bool), err error) {
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
func (r *room) leave() {
	if r.sub != nil {
		r.mailbox.endWait(r.sub, false)
		r.sub = nil
	}
}

// close ends all waits: nothing is taken for nobody.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = true
	r.leave()
}
