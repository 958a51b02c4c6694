package turns

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// Options configure turns. All are required but Ahead, Overlap, Owner and Share.
type Options[R, T any] struct {
	// Limits bound a turn, in the weight and the bytes of its requests. A turn with a single line takes as many requests as
	// that, whatever they weigh. At least one request always fits.
	Limits batch.Limits

	// Turns is how many turns may be under way at a time, besides lines that run alone.
	Turns int

	// Rerun has a transaction run again as a whole after a conflict. Otherwise each of its lines runs alone then.
	Rerun bool

	// Early has the next turn begin before the requests of this one are answered.
	Early bool

	// Slow is how long a line may take in a turn, and a turn before it commits. A line that takes longer runs alone for a
	// while: ten times as long as it took, a second at least. Behind a turn that takes longer, another turn begins.
	Slow time.Duration

	// Ahead reports whether a request goes ahead of the requests of its line that do not. These have at least half of the line's room
	// in a turn. Not together with Overlap.
	Ahead func(R) bool

	// Overlap lets several turns have requests of one line at the same time.
	Overlap Overlap[R]

	// Patience bounds how long requests wait behind a transaction that does not end.
	Patience batch.Patience

	// Owner returns the owner of a queue. Share bounds the weight that an owner's lines have in a turn, its first line aside,
	// while the turn has requests of other owners.
	Owner func(queue string) string
	Share int

	// Part makes the parts of lines of a kind.
	Part func(kind int) Part[R, T]

	// Update runs a transaction, several times if it has to, and commits it.
	Update func(func(T) error) error

	// Outage reports whether an error of Update concerns every line.
	Outage func(error) bool

	// Ran is called after a transaction that took effect, with what its parts have done: how much of each sort.
	Ran func(done map[int]int, took time.Duration)

	// Weight and Size return how much of Limits a request takes: the number of items, and bytes.
	Weight, Size func(R) int

	// Waited returns how long a request has waited.
	Waited func(R) time.Duration

	// Stuck gets requests back that have waited for too long. None of them was begun. It is called without requests, too,
	// when none waits behind the transaction that is stuck.
	Stuck func([]R)
}

// ErrFollow has the requests of a part wait for the end of all other turns that have requests of its line.
var ErrFollow = errors.New("the turns of the line follow one another")
