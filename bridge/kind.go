package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// kind is a kind of work. It decides which lanes a request enters, see lanes.open. Peeks and settlements enter lanes of other
// kinds.
type kind int

const (
	kindPush kind = iota
	kindImport
	kindPop
	kindPeek // one that waits is a pop, another one a query
	kindSettlement
	kindQuery
	kindResult // a query, which may wait
	kindChange
	kindBulk
	kinds
)

// entrance hands a request of a kind to its lane. queue names the lane: the queue of the request or, if it asks the system, its
// tenant and a dot.
type entrance func(queue string, w desk.Work)

// entranceTo returns the entrance to turns, whose parts of a kind take all requests as they come.
func entranceTo(to *desk.Turns, part int) entrance {
	return func(queue string, w desk.Work) { to.Submit(turns.Key{Kind: part, Queue: queue}, w) }
}

// entranceOf returns the entrance of a kind, all of whose requests are of type W.
func entranceOf[W desk.Work](enter func(queue string, w W)) entrance {
	return func(queue string, w desk.Work) { enter(queue, w.(W)) }
}
