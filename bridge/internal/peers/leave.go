package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Leave tells the other bridges that this one takes no more of their requests, and returns when the requests that
// were on their way are being served. The others report when they have none under way. This bridge cannot
// unsubscribe earlier: requests without a receiver would be lost, since the server's word about them can be forged.
func (o *Owners) Leave(ctx context.Context) error {
	if o.ends != nil {
		o.ends()
		<-o.ended
		o.ends = nil
	}
	o.mu.Lock()
	sub := o.inbox
	o.inbox = nil
	o.awaited = make(map[string]bool)
	for id := range o.members.heard {
		o.awaited[id] = true
	}
	o.mu.Unlock()
	if sub == nil {
		return nil
	}
	o.awaitOthers(ctx)
	if o.nc.IsReconnecting() { // a drain would wait for the server, which sends nothing
		if err := sub.Unsubscribe(); err != nil {
			return fmt.Errorf("unsubscribe from %s: %w", sub.Subject, err)
		}
		return nil
	}
	// The server sends no more when it has heard of the end.
	closed := sub.StatusChanged(nats.SubscriptionClosed)
	if err := sub.Drain(); err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain %s: %w", sub.Subject, ctx.Err())
	}
}

// awaitOthers announces that this bridge leaves, until the others have reported that they have nothing under way to
// it, or are silent.
func (o *Owners) awaitOthers(ctx context.Context) {
	late, again := time.NewTimer(takenPatience), time.NewTicker(announceEvery)
	defer late.Stop()
	defer again.Stop()
	o.say(wordsOfAll, wordGone)
	for o.awaits() && !o.nc.IsClosed() {
		select {
		case <-o.cleared:
		case <-again.C:
			o.tend()
			o.say(wordsOfAll, wordGone)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// awaits reports whether another bridge may have requests under way to this one.
func (o *Owners) awaits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.members.dropSilent(o.now())
	for id := range o.awaited {
		if o.members.has(id) {
			return true
		}
	}
	return false
}

// Settle returns when other bridges have taken all requests that this one has passed on, or it is unknown whether
// they have.
func (o *Owners) Settle(ctx context.Context) error {
	again := time.NewTicker(announceEvery)
	defer again.Stop()
	for !o.passing.settled() {
		select {
		case <-o.passing.empty:
		case <-again.C:
			o.tend()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
