package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// StartsAt is how Seq is found at the first contact with the stream.
func (s *Source) StartsAt() SourceStart {
	switch at, err := time.Parse(time.RFC3339Nano, s.Position.From); {
	case s.Position.From == fromSeq:
		return SourceStart{Seq: s.Position.Seq + 1}
	case s.Position.From == StartFirst:
		return SourceStart{Word: StartFirst}
	case err == nil:
		return SourceStart{Time: &at}
	}
	return s.Config.Start
}

// SourceMessage is a message of the stream.
type SourceMessage struct {
	SourceMark
	Item    NewItem
	Missed  int64 // messages between the one before and this one, which the stream has dropped
	None    bool  // it is no item
	Refused error // why it can be no item: it becomes a dead letter
	Large   error // why it can be no dead letter either
}

// Fed is the result of a Feed.
type Fed struct {
	Position SourcePosition
	Done     int // messages that the source is done with
	Pushed   int
	Known    int   // of messages that another item stands for, by its unique value
	Poisoned int   // became dead letters
	Skipped  int64 // messages that the stream had dropped
	Blocked  error // why the message behind them was not pushed: the queue or the store is full
	Events   []Event
}

// Feed pushes messages of a source, in their order, if it is still at the position that its caller has found, and
// moves it on. ErrSourceMoved: it is elsewhere. ErrNoSource: it is gone.
//
// A message that no push would take becomes a dead letter. Where none can be made of it, the source stops there. When the queue is
// full, what fits is pushed.
func (q Queue) Feed(tx kv.Tx, s *Source, messages []SourceMessage) (fed Fed, err error) {
	q.PrefetchPush(tx)
	tx.Prefetch(s.home().Key(layout.SpacePosition, s.Name))
	err = q.In(tx, func(q Queue) error {
		fed, err = feeding{tx, q}.all(s, messages)
		return err
	})
	return fed, err
}

// feeding is a Feed under way.
type feeding struct {
	tx    kv.Tx
	queue Queue
}

func (f feeding) all(s *Source, messages []SourceMessage) (fed Fed, err error) {
	if _, err := s.open(f.tx, f.queue); err != nil {
		return fed, err
	}
	fed.Position = s.Position
	for i := range messages {
		m := &messages[i]
		goesOn, err := f.one(&fed, m)
		if err != nil {
			return fed, err
		}
		if !goesOn {
			if fed.Position.Stop.Reason != "" && m.Missed > 0 { // whoever passes over the message passes over these, too
				fed.Position.to(m.Seq - 1)
				fed.skipped(m.Missed)
			}
			break
		}
		fed.Position.reach(m.SourceMark)
		fed.skipped(m.Missed)
		fed.Done++
	}
	at := &fed.Position
	switch wall := f.queue.store.inside.Clock.Wall().UnixNano(); {
	case fed.Blocked != nil && at.Blocked == 0:
		at.Blocked = wall
	case fed.Blocked == nil:
		at.Blocked = 0
	}
	f.tx.Set(s.home().Key(layout.SpacePosition, s.Name), at.pack())
	return fed, nil
}

func (f *Fed) skipped(n int64) {
	f.Skipped += n
	f.Position.Skipped += n
}

// one pushes one message, and reports whether the source is done with it.
func (f feeding) one(fed *Fed, m *SourceMessage) (goesOn bool, err error) {
	if m.None {
		return true, nil
	}
	refused, large := m.Refused, m.Large
	if refused == nil && large == nil {
		pushed, err := f.queue.Push(f.tx, m.Item)
		if err != nil {
			return false, err
		}
		fed.Events = append(fed.Events, pushed[0].Events...)
		switch err := pushed[0].Err; {
		case err == nil:
			fed.Position.Delivered++
			if pushed[0].Duplicate {
				fed.Known++
			} else {
				fed.Pushed++
			}
			return true, nil
		case errors.Is(err, ErrFull), f.queue.full != nil && err == f.queue.full:
			fed.Blocked = err
			return false, nil
		case errors.Is(err, ErrContent):
			large = err
		default:
			refused = err
		}
	}
	if large == nil {
		buried, err := f.queue.Bury(f.tx, m.Item, fmt.Sprint("source: ", refused))
		switch {
		case err != nil:
			return false, err
		case buried.Err == nil:
			fed.Poisoned++
			fed.Position.Poisoned++
			return true, nil
		case f.queue.full != nil && buried.Err == f.queue.full:
			fed.Blocked = buried.Err
			return false, nil
		}
		large = fmt.Errorf("%w; %w", refused, buried.Err)
	}
	fed.Position.Stop = SourceStop{Reason: StopPoisoned, Text: fmt.Sprintf("%s: %v", m.what(), large), At: m.SourceMark}
	fed.Position.Stop.Since = f.queue.store.inside.Clock.Wall().UnixNano()
	return false, nil
}

// MoveSource changes how far a source is, unless it is elsewhere by now: at the first contact, over what the
// stream has lost, and to stop it.
func (q Queue) MoveSource(tx kv.Tx, s *Source, to SourcePosition) error {
	if _, err := s.open(tx, q); err != nil {
		return err
	}
	if to.Stop.Reason != "" && to.Stop.Since == 0 {
		to.Stop.Since = q.store.inside.Clock.Wall().UnixNano()
	}
	tx.Set(s.home().Key(layout.SpacePosition, s.Name), to.pack())
	return nil
}

// SourceTermAlone is that of a bridge that has the store for itself: nobody waits for its end, so it need not write.
const SourceTermAlone = time.Hour

// SourceClaim is what a bridge says of a source that it runs.
type SourceClaim struct {
	Source *Source
	Run    SourceRun
}

// RunSources is [Queue.RunSource] for many, in one transaction. A source that is gone is not the bridge's.
func (s *Store) RunSources(tx kv.Tx, claims []SourceClaim, alone bool) (mine []bool, err error) {
	var rows [][]byte
	for _, c := range claims {
		h := c.Source.home()
		rows = append(rows, layout.QueueRow(layout.SpaceState, h.Queue), h.Key(layout.SpaceSource, c.Source.Name), h.Key(layout.SpaceSourceRunner, c.Source.Name))
	}
	tx.Prefetch(rows...)
	mine = make([]bool, len(claims))
	for i, c := range claims {
		mine[i], err = s.Queue(c.Source.Queue).RunSource(tx, c.Source, c.Run, alone)
		if err != nil && err != ErrNoSource {
			return nil, err
		}
	}
	return mine, nil
}

// RunSource says that a bridge runs a source for a while. It reports whether it may: no other one does, or alone says that no other one
// can. Nothing depends on it but who fetches.
func (q Queue) RunSource(tx kv.Tx, s *Source, run SourceRun, alone bool) (bool, error) {
	qtx, err := s.openAny(tx, q)
	if err != nil {
		return false, err
	}
	now, err := qtx.now()
	if err != nil {
		return false, err
	}
	key := s.home().Key(layout.SpaceSourceRunner, s.Name)
	was, err := tx.Get(key)
	if err != nil {
		return false, err
	}
	if was != nil {
		var other SourceRun
		if err := other.parse(was); err != nil {
			return false, fmt.Errorf("damaged source %q: %w", s.Name, err)
		}
		if other.Runner != run.Runner && other.Holds(now) && !alone {
			return false, nil
		}
	}
	run.Until = now + int64(SourceTerm)
	if alone {
		run.Until = now + int64(SourceTermAlone)
	}
	tx.Set(key, run.pack())
	return true, nil
}

// LeaveSource has another bridge run a source at once.
func (q Queue) LeaveSource(tx kv.Tx, s *Source, runner string) error {
	if _, err := s.openAny(tx, q); err != nil {
		return err
	}
	key := s.home().Key(layout.SpaceSourceRunner, s.Name)
	was, err := tx.Get(key)
	if err != nil || was == nil {
		return err
	}
	var run SourceRun
	if err := run.parse(was); err != nil {
		return fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if run.Runner != runner {
		return nil
	}
	now, err := q.store.inside.Clock.At(tx.Snapshot())
	if err == nil {
		run.vacate(now)
		tx.Set(key, run.pack())
	}
	return err
}

func (s *Source) home() sourceHome { return homeOfSources(s.Queue, s.Born) }

// openAny begins an operation on the queue that a source feeds, if there still is that source.
func (s *Source) openAny(tx kv.Tx, q Queue) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err != nil {
		return nil, err
	}
	if !qtx.there() || qtx.state.born != s.Born {
		return nil, ErrNoSource
	}
	definition, err := tx.Get(s.home().Key(layout.SpaceSource, s.Name))
	if err == nil && definition == nil {
		err = ErrNoSource
	}
	return qtx, err
}

// open is openAny of a source that has to be where it was found, and to run.
func (s *Source) open(tx kv.Tx, q Queue) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err != nil {
		return nil, err
	}
	if !qtx.there() || qtx.state.born != s.Born {
		return nil, ErrNoSource
	}
	value, err := tx.Get(s.home().Key(layout.SpacePosition, s.Name))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, ErrNoSource
	}
	var at SourcePosition
	if err := at.parse(value); err != nil {
		return nil, fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if at != s.Position || at.Stop.Reason != "" {
		return nil, ErrSourceMoved
	}
	return qtx, nil
}

// BatchPart is what an answer has of the batch of a link: the items behind the first ones, of so many.
type BatchPart struct {
	ID           string
	First, Total int
}

// OfBatch is [SourcePosition.OfPart] for a whole batch.
func (p *SourcePosition) OfBatch(id string, at time.Time, items []SourceMessage) []SourceMessage {
	return p.OfPart(BatchPart{ID: id, Total: len(items)}, at, items)
}

// OfPart numbers items of the batch of a link that is behind the position, and ends the batch with a message that is no item. It leaves out
// those that the source is done with.
func (p *SourcePosition) OfPart(part BatchPart, at time.Time, items []SourceMessage) []SourceMessage {
	done := 0
	if p.Next == part.ID {
		done = max(0, min(int(p.Part)-part.First, len(items)))
	}
	for i := done; i < len(items); i++ {
		items[i].SourceMark = SourceMark{Seq: p.Seq, Time: at.UnixNano(), Batch: p.Batch, Part: int64(part.First + i + 1), Next: part.ID}
	}
	if part.First+len(items) < part.Total {
		return items[done:]
	}
	return append(items[done:], SourceMessage{SourceMark: SourceMark{Seq: p.Seq + 1, Time: at.UnixNano(), Batch: part.ID}, None: true})
}
