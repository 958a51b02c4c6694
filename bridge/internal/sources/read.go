package sources

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// A full queue is tried again after a pause that grows as long as nothing fits.
const (
	firstBlocked = 100 * time.Millisecond
	lastBlocked  = 30 * time.Second
)

// errDisorder: the messages are not the messages that were requested.
var errDisorder = errors.New("messages came out of order")

// read reads from a consumer, and pushes, until something fails.
func (a *attempt) read(ctx context.Context, consumer string) error {
	requests := 2 // one is under way while the other one commits
	if a.takes() {
		requests = 1
	}
	p, err := newPull(a.stream, a.runners.clock, consumer, a.source.Config.Batch, requests)
	if err != nil {
		return err
	}
	defer p.close()
	verify := time.NewTicker(verifyEvery)
	defer verify.Stop()
	for {
		first, is, err := p.next(ctx, verify.C, a.lost)
		if err != nil {
			return err
		}
		if !is {
			if err := a.verify(ctx); err != nil {
				return err
			}
			continue
		}
		batch, err := a.gather(ctx, p, first)
		if err != nil {
			return err
		}
		if err := p.ask(); err != nil {
			return err
		}
		if err := a.feed(ctx, batch); err != nil {
			return err
		}
		select {
		case <-verify.C:
			if err := a.verify(ctx); err != nil {
				return err
			}
		default:
		}
	}
}

// batch is the work of one transaction.
type batch struct {
	messages []source.Message
	new      []delivery // the same messages, as delivered
	old      []delivery // messages that the store has already
	bytes    int
	came     time.Time // when the items of a link arrived; their TTLs are relative to it
}

// age subtracts the time that items of a link have waited here from their TTLs.
func (b *batch) age(now time.Time) {
	for i := range b.messages {
		if ttl := &b.messages[i].Item.TTL; *ttl > 0 {
			*ttl = max(*ttl-now.Sub(b.came), time.Millisecond)
		}
	}
	b.came = now
}

// gather returns a delivery and the deliveries that have arrived behind it, as far as they fit into one transaction.
func (a *attempt) gather(ctx context.Context, p *pull, d delivery) (b batch, err error) {
	last := a.source.Position.Seq
	gaps := gaps{attempt: a}
	a.runners.Wire.Limit.Refresh()
	for is := true; is; {
		switch {
		case d.seq <= a.source.Position.Seq && a.takes():
			if at := a.source.Position.Mark; at.Time != 0 && d.at.UnixNano() > at.Time { // it was never read: to acknowledge it would destroy it
				return b, a.halt(ctx, source.Stop{
					Reason: source.StopDiverged, At: source.Mark{Seq: a.info.State.LastSeq},
					Text: fmt.Sprintf("message %d is younger than message %d that was read, and was not read", d.seq, at.Seq),
				})
			}
			b.old = append(b.old, d)
		case d.seq <= last:
			return b, errDisorder
		default:
			m := a.items.Read(d.Msg, d.seq, d.at)
			if m.Missed, err = gaps.missed(ctx, last, d.seq); err != nil {
				return b, err
			}
			last = d.seq
			b.new = append(b.new, d)
			b.messages = append(b.messages, m)
			b.bytes += len(d.Data)
		}
		if len(b.new)+len(b.old) >= a.source.Config.Batch || b.bytes >= pullBytes {
			break
		}
		if d, is, err = p.more(); err != nil {
			return b, err
		}
	}
	a.saw(last)
	return b, nil
}

// gaps counts the sequences between the messages of a batch that were not delivered.
type gaps struct {
	*attempt
	asked bool // where the stream begins
}

// firstEvery is how often a source with a filter asks where the stream begins: there is hardly a batch without gaps.
const firstEvery = time.Second

// missed returns how many messages between two the stream has dropped before they were read. A source that copies without
// a filter counts all sequences in between that came since the attempt began, and of older ones those in front of the
// stream's first message: a message deleted in the middle may have been deleted before there was a source. With a
// filter, all sequences in front of the first message may be such messages. A source that takes moves the stream's
// first message by its acknowledgements, so it has to know what was missing when the attempt began; with a filter it
// knows nothing.
func (g *gaps) missed(ctx context.Context, last, seq uint64) (int64, error) {
	filtered := len(g.source.Config.Filter) > 0
	switch {
	case seq == last+1 || filtered && g.takes():
		return 0, nil
	case g.takes():
		return g.dropped(last, seq), nil
	}
	if !g.asked && (filtered && time.Since(g.looked) >= firstEvery || !filtered && last < g.began) {
		info, err := g.stream.info(ctx)
		if err != nil {
			return 0, err
		}
		g.info, g.looked, g.asked = info, time.Now(), true
	}
	before := min(seq, g.info.State.FirstSeq)
	if !filtered {
		before = min(before, g.began+1)
	}
	n := max(0, int64(before)-1-int64(last))
	if since := max(last, g.began); !filtered && seq > since+1 {
		n += int64(seq - 1 - since)
	}
	return n, nil
}

// feed pushes a batch. While the queue is full it waits.
func (a *attempt) feed(ctx context.Context, b batch) error {
	for pause := firstBlocked; len(b.messages) > 0; {
		fed, err := a.push(ctx, b.messages)
		if err != nil {
			return err
		}
		a.skipped(fed.Skipped)
		if a.takes() {
			if err := a.acknowledge(ctx, b.new[:fed.Done]); err != nil {
				return err
			}
			b.new = b.new[fed.Done:]
		}
		b.messages = b.messages[fed.Done:]
		if stop := &fed.Position.Stop; stop.Reason != "" {
			a.stopped(stop)
			return errDone
		}
		if fed.Blocked == nil {
			break
		}
		if fed.Done > 0 {
			pause = firstBlocked
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.lost:
			return errDisconnected
		case <-time.After(pause):
			pause = min(2*pause, lastBlocked)
		}
		if !b.came.IsZero() {
			b.age(time.Now())
		}
	}
	if a.takes() {
		return a.acknowledge(ctx, b.old)
	}
	return nil
}

// push pushes messages in one transaction.
func (a *attempt) push(ctx context.Context, messages []source.Message) (fed source.Fed, err error) {
	ctx, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	queue := a.runners.Store.Queue(a.id.queue)
	takes := 0
	for i := range messages {
		takes += fdbpq.NewItemBytes(&messages[i].Item)
	}
	ended, full := a.runners.Room(a.id.queue, len(messages), takes)
	defer ended()
	err = a.runners.update(ctx, func(tx kv.Tx) (err error) {
		fed, err = a.runners.Sources.Feed(tx, queue, &a.source, messages, full)
		return err
	})
	if err != nil {
		return fed, a.failed(err)
	}
	a.source.Position = fed.Position
	a.runners.Fed(a.id.queue, bytesOf(messages[:fed.Done]), &fed)
	if fed.Poisoned > 0 {
		a.tell(protocol.SourceEvent{Type: protocol.EventSourcePoisoned, Count: int64(fed.Poisoned)})
	}
	return fed, nil
}

// bytesOf is how many bytes of headers and payload the items of some messages have.
func bytesOf(messages []source.Message) (n int) {
	for i := range messages {
		n += len(messages[i].Item.Headers) + len(messages[i].Item.Payload)
	}
	return n
}
