package bridge

import (
	"errors"
	"slices"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// errClientsGone makes a transaction run again without the pops of clients that have gone.
var errClientsGone = errors.New("a client that waited has gone")

// findGone asks whether the clients still listen that are about to get items without a
// lease after a wait. It reports whether any of them has gone.
func (t *popTransaction) findGone() bool {
	var ask []*pop
	var replies []string
	for _, r := range t.todo[:min(t.served, len(t.waiting.Pops))] {
		if r.losesItems() && !r.asked {
			ask = append(ask, r)
			replies = append(replies, r.Msg.Reply)
		}
	}
	if len(ask) == 0 {
		return false
	}
	t.gone = t.waits.interest.gone(replies)
	for _, r := range ask {
		r.asked = true // or it is dropped next
	}
	return len(t.gone) > 0
}

// dropGone ends the waits of clients that have gone.
func (t *popTransaction) dropGone() {
	fresh := t.todo[len(t.waiting.Pops):]
	var listening []*pop
	for _, r := range t.waiting.Pops {
		if !slices.Contains(t.gone, r.Msg.Reply) {
			listening = append(listening, r)
			continue
		}
		t.waits.line.Remove(r.place)
		t.Done(&r.Request, errGone)
	}
	t.waiting.Pops, t.todo = listening, slices.Concat(listening, fresh)
	t.part = batch.NewPart(len(t.todo))
	t.alone = false
}
