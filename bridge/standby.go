package bridge

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// errStandby refuses the pops that wait when the bridge goes on standby.
var errStandby = &failure{code: 409, text: "this bridge leaves the prefix to another one: ask again", description: protocol.DescriptionShutdown}

// enterStandby takes no more requests. What has arrived is still done; waiting
// pops are refused, because what they wait for goes elsewhere now. Signals go with
// the settlements: a subscription that answers nothing would keep the server
// from saying that nobody does.
func (b *Bridge) enterStandby(ctx context.Context) (err error) {
	b.intake.mu.Lock()
	defer b.intake.mu.Unlock()
	for _, sub := range []**nats.Subscription{&b.subs.requests, &b.subs.signals, &b.subs.acks} {
		if *sub != nil {
			err = errors.Join(err, b.receiveRest(ctx, *sub))
			*sub = nil
		}
	}
	b.waiting.Close(errStandby)
	return err
}

// leaveStandby takes requests again.
func (b *Bridge) leaveStandby() error {
	b.intake.mu.Lock()
	defer b.intake.mu.Unlock()
	b.waiting.Open()
	err := b.subscribe()
	if err != nil {
		b.silence(&b.subs.requests, &b.subs.signals, &b.subs.acks)
	}
	return err
}
