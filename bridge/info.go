package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// info shows a queue.
type info struct {
	jsonQuery
	history bool
}

func makeInfo(subjects.Verb) work { return new(info) }

func (i *info) Read(*codec.Wire) *failure.Failure { return readHistory(&i.Request, &i.history) }

// readHistory reads whether info is to have a history.
func readHistory(r *request.Request, history *bool) *failure.Failure {
	return codec.ReadOptions(r.Msg, r.Subject.Verb.String(), "history", func(name string, value any) (known bool, f *failure.Failure) {
		if known = name == "history"; known {
			*history, f = codec.ReadBool(name, value)
		}
		return known, f
	})
}

func (i *info) find(v *view) error {
	name := v.queue.Name()
	q, err := v.queue.Inspect(v.reader)
	if err != nil {
		return err
	}
	if q == nil {
		i.Failure = failure.NoQueue(name)
		return nil
	}
	var oldest fdbpq.Oldest
	if q.Ready > 0 {
		if oldest, err = v.queue.OldestReady(v.reader, infoLooks); err != nil {
			return err
		}
	}
	var lease fdbpq.OldestLease
	if q.Leased > 0 {
		if lease, err = v.queue.OldestLease(v.reader, infoLeases); err != nil {
			return err
		}
	}
	now := time.Now()
	var history *protocol.History
	if i.history {
		history = v.about.history(v.Stats.QueueHistory(name))
	}
	return i.answerJSON(protocol.Info{
		Queue: name, Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Bytes: q.Bytes,
		Waiting: v.waits.at(name), Rates: v.Stats.Rates(name),
		Oldest: ageOfNext(q, now), OldestOfAll: ageAt(oldest.Pushed, now), OldestAtLeast: oldest.AtLeast,
		OldestLease: max(0, lease.Age.Seconds()), LeaseAtLeast: lease.AtLeast,
		Paused: q.Paused, Config: codec.Config(q.Config), FairReady: q.FairReady, KeysSet: q.KeysSet, History: history,
		KeysOwing: q.KeysOwing, Remembered: q.Remembered,
	})
}

// At how much info looks.
const (
	infoLooks  = 64  // priorities, for the oldest item
	infoLeases = 256 // leases, for the oldest one
)

// ageOfNext is the age in seconds of the item that pop.min would take, 0 when there is
// none.
func ageOfNext(i *fdbpq.Inspection, now time.Time) float64 {
	if i.Next == nil {
		return 0
	}
	return ageAt(i.Next.Pushed, now)
}

// ageAt is how many seconds before now something was, 0 for the zero time.
func ageAt(then, now time.Time) float64 {
	if then.IsZero() {
		return 0
	}
	return max(0, now.Sub(then).Seconds())
}
