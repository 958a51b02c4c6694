package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/bridge/receiver"
	"github.com/pqbridge/pqbridge/protocol"
)

// Drain ends the bridge in order. It refuses the waiting pops, unsubscribes from
// requests and answers the requests in flight. Then it does the same for settlements,
// and flushes the connection. When ctx ends first, the remaining requests are not
// answered. The connection and the store stay open. A second call does nothing more.
func (b *Bridge) Drain(ctx context.Context) error {
	b.drained.once.Do(func() { b.drained.err = b.end(ctx) })
	return b.drained.err
}

// errShutdown ends the waits of pops when the bridge drains.
var errShutdown = &failure.Failure{Code: 409, Text: "the bridge is shutting down: ask again", Description: protocol.DescriptionShutdown}

// drained is how the bridge ended.
type drained struct {
	once sync.Once
	err  error
}

func (b *Bridge) end(ctx context.Context) error {
	b.peers.Standby.Stop()
	b.responder.gate.close()
	b.service.stop()
	b.waits.line.Close(errShutdown)
	err := errors.Join(
		b.receiver.DrainRequests(ctx), b.responder.gate.work.drain(ctx),
		b.receiver.DrainSettlements(ctx), b.responder.gate.settlements.drain(ctx),
	)
	b.receiver.Close()
	b.lanes.stop()
	b.peers.Turns.Stop()
	b.interest.stop()
	b.keeper.stop()
	b.responder.events.close()
	return errors.Join(err, receiver.Flush(ctx, b.nc))
}
