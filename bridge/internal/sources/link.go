package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// linkWait is how long a request to a link waits for items there.
const linkWait = 5 * time.Second

// fromLink takes items from a link, a batch at a time, until something fails. A request names the last batch that
// the store has. So whether an answer was lost or committed, the next one has exactly the items that the store
// lacks.
func (a *attempt) fromLink(ctx context.Context, nc *nats.Conn) error {
	var idle idle
	for {
		asked := a.runners.clock.now()
		answer, err := a.askLink(ctx, nc)
		if err != nil {
			return err
		}
		stop, nothing, err := readRefusal(answer)
		if giver, known := answer.Header.Get(protocol.HeaderLinkGiver), a.source.Position.Giver; err == nil && giver != "" && known != "" && giver != known {
			stop = source.Stop{Reason: source.StopGiverReplaced, Text: fmt.Sprintf("the store %s answers, and %s did before", giver, known)}
		}
		switch {
		case err != nil:
			return err
		case stop.Reason != "":
			return a.halt(ctx, stop)
		}
		a.failing("")
		if nothing {
			if to := a.source.Position; to.Created == 0 {
				to.Created = time.Now().UnixNano()
				if err := a.move(ctx, to); err != nil {
					return err
				}
			}
			a.ends(0)
			if err := a.rest(ctx, idle.pause(a.runners.clock.now().Sub(asked))); err != nil {
				return err
			}
			continue
		}
		took := a.runners.clock.now().Sub(asked)
		a.runners.Wire.Limit.Refresh()
		given, err := a.runners.Wire.ReadLinkBatch(a.id.queue, a.id.name, answer)
		if err != nil {
			return err
		}
		if err := a.takeBatch(ctx, &given); err != nil {
			return err
		}
		if len(given.Items) > 0 {
			idle.reset()
			continue
		}
		if err := a.rest(ctx, idle.pause(took)); err != nil { // a purge empties a batch, and a hostile giver each one
			return err
		}
	}
}

// askLink asks for the batch that follows the store's last one.
func (a *attempt) askLink(ctx context.Context, nc *nats.Conn) (*nats.Msg, error) {
	at, c := &a.source.Position, &a.source.Config
	ask := protocol.LinkTake{Taker: a.runners.Store.ID(), Done: at.Seq, Batch: at.Batch, Max: c.Batch, Accept: at.Accepts(),
		Left: at.LeavesOf(), MaxPayload: nc.MaxPayload(), Next: at.Next, Part: at.Part}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	m := nats.NewMsg(c.Queue + ".link." + c.Link)
	m.Header.Set(protocol.HeaderWait, linkWait.String())
	m.Data = body
	ctx, cancel := context.WithTimeoutCause(ctx, linkWait+askTime, fmt.Errorf("%s has not answered for %s", m.Subject, linkWait+askTime))
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	lost := make(chan struct{})
	go func() {
		select {
		case <-a.lost:
			close(lost)
			cancel()
		case <-over:
		}
	}()
	answer, err := nc.RequestMsgWithContext(ctx, m)
	select {
	case <-lost:
		return nil, errDisconnected
	default:
	}
	if errors.Is(err, nats.ErrNoResponders) {
		err = errors.New("nobody serves it: the pqd with that prefix is not there, or this user may not ask it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Subject, err)
	}
	return answer, nil
}

// readRefusal reads a link's refusal: there is nothing now, or the source has to stop.
func readRefusal(m *nats.Msg) (stop source.Stop, nothing bool, err error) {
	reason, text := m.Header.Get(protocol.HeaderReason), m.Header.Get(micro.ErrorHeader)
	switch code := codeOf(m); {
	case code == "":
		return stop, false, nil
	case reason == string(protocol.ReasonGiverBehind), reason == string(protocol.ReasonTakerBehind):
		return source.Stop{Reason: source.StopReason(reason), Text: text}, false, nil
	case code == fmt.Sprint(http.StatusRequestTimeout), code == fmt.Sprint(http.StatusNotFound) && reason != string(protocol.ReasonUnknown):
		return stop, true, nil
	default:
		return stop, false, fmt.Errorf("the link refuses: %s %s", code, text)
	}
}

// codeOf is the code of a refusal, "" for another message.
func codeOf(m *nats.Msg) string {
	return cmp.Or(m.Header.Get(micro.ErrorCodeHeader), m.Header.Get(protocol.HeaderStatus))
}

// halt stops the source, unless it has moved meanwhile: then the answer was about an earlier position.
func (a *attempt) halt(ctx context.Context, stop source.Stop) error {
	stop.Text = source.Text(stop.Text)
	to := a.source.Position
	to.Stop = stop
	if err := a.move(ctx, to); err != nil {
		return err
	}
	a.stopped(&stop)
	return errDone
}

// takeBatch pushes the items of a batch that the store does not have.
func (a *attempt) takeBatch(ctx context.Context, b *codec.LinkBatch) error {
	at := a.source.Position
	to := at
	switch {
	case at.Accepts():
		to.Seq, to.Batch, to.From = b.Number-1, b.Before, ""
		if to.Next != b.ID {
			to.Part, to.Next = 0, ""
		}
	case b.Number != at.Seq+1 || b.Before != at.Batch:
		return fmt.Errorf("the link gives batch %d, and this store has %d", b.Number, at.Seq)
	case at.Next != "" && at.Next != b.ID:
		return a.halt(ctx, source.Stop{Reason: source.StopGiverBehind, Text: fmt.Sprintf("%d items of batch %d were taken, and the giver has another batch of that number", at.Part, b.Number)})
	}
	if to.Giver = b.Giver; to.Created == 0 {
		to.Created = time.Now().UnixNano()
	}
	if to != at {
		if err := a.move(ctx, to); err != nil {
			return err
		}
	}
	a.ends(b.Pending)
	if a.source.Position.Next == b.ID && int64(b.First) > a.source.Position.Part || a.source.Position.Next != b.ID && b.First > 0 {
		return fmt.Errorf("the link gives items behind %d of batch %d, and this store has %d", b.First, b.Number, a.source.Position.Part)
	}
	messages := a.source.Position.OfPart(b.BatchPart, time.Now(), b.Items)
	if len(messages) == 0 {
		return fmt.Errorf("the link gives nothing of batch %d that this store does not have", b.Number)
	}
	return a.feed(ctx, batch{messages: messages, came: time.Now()})
}
