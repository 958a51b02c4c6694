package client

import (
	"crypto/rand"

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
	if _, up := b.connection(); up && !answered {
		_ = sub.Drain() // it fails if the connection is closed, and nothing is left
		return
	}
	_ = sub.Unsubscribe()
}
