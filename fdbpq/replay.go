package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// ErrPopIDReused: the pop id was used for a pop from another end, band or lease.
var ErrPopIDReused = errors.New("pop id was used for a different pop")

// replay is the row that keeps a pop's id for the queue's window, so that the
// same pop gets the same answer again. Leased items are named by their leases;
// items taken for good are kept beside it, each in a row of its own.
type replay struct {
	due    int64
	end    End
	band   Band
	lease  time.Duration // 0: taken for good
	taken  int64         // items kept beside
	leases [][]byte      // tokens
}

func replayRow(queue, popID string) []byte {
	return tuple.AppendString(queueRow(spaceReplay, queue), popID)
}

// replayItemRow keeps the n-th item of a pop; its chunks stand behind it.
func replayItemRow(queue, popID string, n int64) []byte {
	return tuple.AppendInt(tuple.AppendString(queueRow(spaceReplayed, queue), popID), n)
}

func (m *replay) pack() []byte {
	b := tuple.AppendInt(nil, m.due)
	for _, field := range [...]int64{int64(m.end), m.band.Low, m.band.High, int64(m.lease), m.taken} {
		b = tuple.AppendInt(b, field)
	}
	for _, token := range m.leases {
		b = tuple.AppendBytes(b, token)
	}
	return b
}

func parseReplay(b []byte) (*replay, error) {
	var m replay
	var end, lease int64
	rest, err := b, error(nil)
	for _, field := range [...]*int64{&m.due, &end, &m.band.Low, &m.band.High, &lease, &m.taken} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return nil, fmt.Errorf("damaged pop id: %w", err)
		}
	}
	if m.end = End(end); int64(m.end) != end || m.end > Max {
		return nil, fmt.Errorf("damaged pop id: end %d", end)
	}
	m.lease = time.Duration(lease)
	for len(rest) > 0 {
		var token []byte
		if token, rest, err = tuple.ConsumeBytes(rest); err != nil {
			return nil, fmt.Errorf("damaged pop id: %w", err)
		}
		m.leases = append(m.leases, token)
	}
	return &m, nil
}

// replay answers a pop that was answered before, nil when it was not. What was
// settled since is left out; when nothing is left it returns *LostError.
func (c *change) replay(sel *Selection, lease time.Duration) (*Popped, error) {
	row, err := c.tx.Get(replayRow(c.name, sel.PopID))
	if err != nil || row == nil {
		return nil, err
	}
	m, err := parseReplay(row)
	if err != nil {
		return nil, err
	}
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	if m.due <= now {
		c.forgetPop(sel.PopID, m) // the sweep is late
		return nil, nil
	}
	if m.end != sel.End || m.band != *sel.Band || m.lease != lease {
		return nil, ErrPopIDReused
	}
	taken := &Popped{}
	for n := range m.taken {
		item, err := c.replayTaken(sel.PopID, n)
		if err != nil {
			return nil, err
		}
		taken.Items = append(taken.Items, item)
	}
	for _, token := range m.leases {
		item, err := c.replayLeased(token, now)
		if err != nil {
			return nil, err
		}
		if item != nil {
			taken.Items = append(taken.Items, *item)
		}
	}
	if len(taken.Items) == 0 {
		return nil, &LostError{LostGone}
	}
	return taken, c.complete(c.past, c.state, taken)
}

func (c *change) replayTaken(popID string, n int64) (Item, error) {
	key := replayItemRow(c.name, popID, n)
	row, err := c.tx.Get(key)
	if err != nil {
		return Item{}, err
	}
	p, value, err := splitPlace(row)
	if err != nil {
		return Item{}, fmt.Errorf("damaged pop: %w", err)
	}
	f := found{place: p}
	if f.envelope, err = parseEnvelope(value, p); err != nil {
		return Item{}, err
	}
	if err := loadContent(c.tx, key, &f.envelope, place{}); err != nil {
		return Item{}, err
	}
	return f.item()
}

func (c *change) replayLeased(token []byte, now int64) (*Item, error) {
	lease, err := ParseLease(c.name, token)
	if err != nil {
		return nil, err
	}
	if lease.generation != c.state.generation {
		return nil, nil
	}
	l, err := c.leasedItem(lease)
	if err != nil || l == nil || l.state != StateLeased || l.fence != lease.Fence || l.due <= now {
		return nil, err
	}
	again := l.held()
	again.answers++
	c.set(spaceLeased, l.place, again.append(c.buffers.value[:0]))
	held, err := c.held(c.tx, c.state, l, true)
	if err != nil {
		return nil, err
	}
	held.Lease = c.lease(l.place, &l.envelope, l.due)
	return &held.Item, nil
}

// rememberPop keeps what a pop took. loaded are the items with their content.
func (c *change) rememberPop(sel *Selection, lease time.Duration, taken *Popped, loaded []found) error {
	now, err := c.now()
	if err != nil {
		return err
	}
	m := replay{due: now + int64(c.state.config.DedupWindow), end: sel.End, band: *sel.Band, lease: lease}
	for i := range taken.Items {
		if l := taken.Items[i].Lease; l != nil {
			m.leases = append(m.leases, l.Token())
			continue
		}
		f := &loaded[i]
		key := replayItemRow(c.name, sel.PopID, m.taken)
		kept := f.envelope
		headers, payload := kept.headers, kept.payload
		kept.chunks, kept.headers, kept.payload = 0, nil, nil
		if err := kept.store(c.tx, key, place{}, headers, payload); err != nil {
			return err
		}
		c.tx.Set(key, joinPlace(f.place, &kept))
		m.taken++
	}
	c.tx.Set(replayRow(c.name, sel.PopID), m.pack())
	c.tx.Set(idTimerKey(m.due, timerReplay, c.name, sel.PopID), nil)
	c.store.due.expect(m.due)
	c.tally.remembered++
	return nil
}

func (c *change) forgetPop(popID string, m *replay) {
	c.tx.Clear(replayRow(c.name, popID))
	c.tx.Clear(idTimerKey(m.due, timerReplay, c.name, popID))
	if m.taken > 0 {
		begin := tuple.AppendString(queueRow(spaceReplayed, c.name), popID)
		c.tx.ClearRange(tuple.Range(begin))
	}
	c.tally.remembered--
}

// joinPlace and splitPlace keep an item with its place in one value.
func joinPlace(p place, e *envelope) []byte {
	return e.append(tuple.AppendBytes(nil, p.append(nil)))
}

func splitPlace(b []byte) (place, []byte, error) {
	at, rest, err := tuple.ConsumeBytes(b)
	if err != nil {
		return place{}, nil, err
	}
	p, err := parsePlace(at)
	return p, rest, err
}
