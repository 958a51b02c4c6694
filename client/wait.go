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

// room has the reply subjects of the waits of a Consume under one subscription, which lasts as long as the Consume.
// So the bridge sees one client that is there or not, whatever its workers do.
type room struct {
	mailbox *mailbox

	mu  sync.Mutex
	on  uint64 // the number of the connection
	sub *nats.Subscription
	of  string // all subjects, in the mailbox, with the dot
	n   int    // waits so far
	end bool
}

// wait is like the mailbox's. On a new connection the room has another subject.
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

// close ends all waits, so no item is taken for them.
func (r *room) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = true
	r.leave()
}
