package source

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Fed is the result of a Feed.
type Fed struct {
	Position Position
	Done     int // messages that the source is done with
	Pushed   int
	Known    int   // of messages that another item stands for, by its unique value
	Poisoned int   // became dead letters
	Skipped  int64 // messages that the stream had dropped
	Blocked  error // why the message behind them was not pushed: the queue or the store is full
	Events   []fdbpq.Event
}

// feeding is a Feed under way.
type feeding struct {
	store *fdbpq.Store
	tx    kv.Tx
	queue fdbpq.Queue
	full  error
}

func (f feeding) all(of *Source, messages []Message) (fed Fed, err error) {
	if err := of.unmoved(f.tx, f.queue); err != nil {
		return fed, err
	}
	fed.Position = of.Position
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
		fed.Position.reach(m.Mark)
		fed.skipped(m.Missed)
		fed.Done++
	}
	at := &fed.Position
	switch wall := f.store.Inside().Clock.Wall().UnixNano(); {
	case fed.Blocked != nil && at.Blocked == 0:
		at.Blocked = wall
	case fed.Blocked == nil:
		at.Blocked = 0
	}
	f.tx.Set(of.home().Key(layout.SpacePosition, of.Name), at.pack())
	return fed, nil
}

func (f *Fed) skipped(n int64) {
	f.Skipped += n
	f.Position.Skipped += n
}

// one pushes one message, and reports whether the source is done with it.
func (f feeding) one(fed *Fed, m *Message) (goesOn bool, err error) {
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
		case errors.Is(err, fdbpq.ErrFull), f.isFull(err):
			fed.Blocked = err
			return false, nil
		case errors.Is(err, fdbpq.ErrContent):
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
		case f.isFull(buried.Err):
			fed.Blocked = buried.Err
			return false, nil
		}
		large = fmt.Errorf("%w; %w", refused, buried.Err)
	}
	fed.Position.Stop = Stop{Reason: StopPoisoned, Text: Text(fmt.Sprintf("%s: %v", m.what(), large)), At: m.Mark}
	fed.Position.Stop.Since = f.store.Inside().Clock.Wall().UnixNano()
	return false, nil
}

// isFull reports whether a push was refused for the caller's reason.
func (f feeding) isFull(err error) bool { return f.full != nil && err == f.full }

// Message is a message of the stream.
type Message struct {
	Mark
	Item    fdbpq.NewItem
	Missed  int64 // messages between the one before and this one, which the stream has dropped
	None    bool  // it is no item
	Refused error // why it can be no item: it becomes a dead letter
	Large   error // why it can be no dead letter either
}

// Mark is what a source knows of a message: enough to notice that the stream has another one
// in its place.
type Mark struct {
	Seq     uint64
	Time    int64  // at which the stream got it
	Subject uint64 // a hash of its subject
	Content uint32 // CRC-32C of its headers and payload

	// Where the source takes from a link, Seq is the number of the last batch, and these say the rest:
	Batch string // the id of that
	Part  int64  // items of the batch behind it that it is done with
	Next  string // the id of that one, if Part is not 0
}

// what names a message of a source, or the last item of a link.
func (m *Mark) what() string {
	if m.Next != "" {
		return fmt.Sprintf("item %d of batch %d", m.Part, m.Seq+1)
	}
	return fmt.Sprintf("message %d", m.Seq)
}
