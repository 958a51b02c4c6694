package bridge

import (
	"errors"
	"slices"

	"github.com/pqbridge/pqbridge/bridge/batch"
)

// errAbsent makes a transaction run again without clients that have gone.
var errAbsent = errors.New("a client that waited has gone")

// errGone counts a wait that ended because its client had gone. Nobody is told.
var errGone = &failure{code: 408, text: "the client stopped listening for its answer"}

// someAbsent asks for the clients that waited and are about to be given items
// for good, and says whether some of them have gone.
func (t *take) someAbsent() bool {
	var ask []*pop
	var replies []string
	for _, r := range t.todo[:min(t.done, len(t.waiting.Pops))] {
		if r.losesItems() && !r.present {
			ask = append(ask, r)
			replies = append(replies, r.msg.Reply)
		}
	}
	if len(ask) == 0 {
		return false
	}
	t.absent = t.bridge.presence.gone(replies)
	for _, r := range ask {
		r.present = true // those that have gone are dropped
	}
	return len(t.absent) > 0
}

// losesItems says whether what the request has found is lost when nobody
// receives it: a lease is given back, and a pop with an id can be repeated.
func (r *pop) losesItems() bool {
	return !r.peeks && r.leased == 0 && r.ask.id == "" && len(r.found) > 0
}

// dropAbsent ends the waits of clients that have gone.
func (t *take) dropAbsent() {
	b := t.bridge
	fresh := t.todo[len(t.waiting.Pops):]
	var present []*pop
	for _, r := range t.waiting.Pops {
		if !slices.Contains(t.absent, r.msg.Reply) {
			present = append(present, r)
			continue
		}
		b.waiting.Remove(r.place)
		b.done(&r.request, errGone)
	}
	t.waiting.Pops, t.todo = present, slices.Concat(present, fresh)
	t.part = batch.NewPart(len(t.todo))
	t.alone = false
}
