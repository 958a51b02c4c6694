package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// info shows a queue.
type info struct{ jsonQuery }

func makeInfo(subjects.Verb) work { return new(info) }

func (i *info) read(*wire) *failure.Failure { return noOptions(&i.Request) }

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
	return i.answerJSON(protocol.Info{
		Queue: name, Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Bytes: q.Bytes,
		Waiting: v.waits.at(name), Rates: v.Stats.Rates(name),
		Oldest: age(q), Paused: q.Paused, Config: Config(q.Config),
	})
}

// age is how many seconds ago the item that pop.min would take was pushed, 0
// when there is none.
func age(i *fdbpq.Inspection) float64 {
	if i.Next == nil {
		return 0
	}
	return max(0, time.Since(i.Next.Pushed).Seconds())
}
