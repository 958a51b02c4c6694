package bridge

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// errStandby ends the waits of pops when the bridge goes on standby.
var errStandby = &failure{code: 409, text: "this bridge leaves the prefix to another one: ask again", description: protocol.DescriptionShutdown}

// enterStandby unsubscribes from requests. Requests that have arrived are still
// served. Waiting pops are refused, because new items go to the other bridge now. The
// subscription to signals ends with the one to settlements, which it matches: while it
// lasts, the server does not answer that there are no responders.
func (b *Bridge) enterStandby(ctx context.Context) (err error) {
	b.shedding.mu.Lock()
	defer b.shedding.mu.Unlock()
	for _, sub := range []**nats.Subscription{&b.subs.requests, &b.subs.signals, &b.subs.acks} {
		if *sub != nil {
			err = errors.Join(err, b.endSubscription(ctx, *sub))
			*sub = nil
		}
	}
	b.waiting.Close(errStandby)
	return err
}

// leaveStandby subscribes to requests again.
func (b *Bridge) leaveStandby() error {
	b.shedding.mu.Lock()
	defer b.shedding.mu.Unlock()
	b.waiting.Open()
	err := b.subscribe()
	if err != nil {
		b.unsubscribeFrom(&b.subs.requests, &b.subs.signals, &b.subs.acks)
	}
	return err
}
