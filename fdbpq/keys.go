package fdbpq

import "github.com/pqbridge/pqbridge/internal/tuple"

// The key of every row is a tuple whose first element names the row's kind. This
// table is the whole data model; the files that write a row say why it exists.
//
//	("v")                                   format version and store id
//	("s")                                   the process that sweeps timers, and until when
//	("k")                                   secret that authenticates lease tokens
//	("t")                                   store time, nanoseconds (max)
//	("w")                                   wall clock when store time was last written
//	("n", process)                          when the process was last alive
//	("n", process, slot)                    session row: the last attempt that committed
//	("b")                                   highest generation of all deleted queues (max)
//	("q", queue)                            state: generation, flags, configuration
//	("h", queue)                            highest count ever assigned (max)
//	("a", queue)                            arrivals: grows when an item becomes ready (add)
//	("c", queue, generation, counter)       counters (add)
//	("i", queue, generation, place)         ready item
//	("d", queue, generation, place)         delayed item
//	("l", queue, generation, place)         leased item
//	("f", queue, generation, place)         forwarding: priority that the item with this id moved to
//	("x", queue, generation, tail, n)       n-th part of a large payload
//	("j", queue, generation, unique)        place in the id of the item with this unique value
//	("ik", queue, generation, place)        ready item that has a key
//	("kr", queue, generation, key, place)   it is ready
//	("kb", queue, generation, key, place)   it is ready, and was leased before
//	("kl", queue, generation, key, tail)    leased item that has a key, or one that waits between two leases in order
//	("kh", queue, generation, place)        key whose first ready item is there, or behind it
//	("kw", queue, due, key)                 key out of tokens that has ready items: when it gets one
//	("kt", queue, key)                      tokens of the key
//	("kt", queue)                           key behind which a timer looks for full buckets
//	("kf", queue, key)                      last fence of the key
//	("kf", queue)                           key behind which a timer looks for fences that time has passed
//	("ks", queue, key)                      settings of the key
//	("qt", queue)                           tokens of the queue
//	("fk", queue, generation, order, class, tag, key)  key whose first ready item is in the class, or in a later one
//	("fu", queue, generation, order, class)            tag of the next item without a key
//	("fc", queue, generation, order, class)            virtual time of the class
//	("fw", queue, generation, key)          weight that a push gave the key
//	("m", queue, generation)                highest lower bound of a fence that an import has assigned
//	("u", queue, message id)                id of the item pushed with it
//	("p", queue, pop id)                    what the pop with it returned
//	("r", queue, pop id, n, …)              items popped for good with it
//	("y", queue, pop id)                    the pop was repeated: a delete keeps its id
//	("o", queue, count, random)             request of a staged pop
//	("e", queue, count, random)             what was reserved for it
//	("sd", queue, born, name)               schedule: what it is, and its item
//	("ss", queue, born, name)               how far it is
//	("sn", queue, born)                     how many there are
//	("zs", lane, due, queue, born, name)    schedules, in the order of the schedule times at which there is something to do
//	("zr")                                  the process that fires schedules, and until when
//	("zc")                                  schedule time minus store time
//	("zt")                                  oldest version of the tz database by which a schedule was planned
//	("vd", queue, born, kind, name)         source: what it is
//	("vp", queue, born, kind, name)         how far it is
//	("vr", queue, born, kind, name)         the bridge that runs it, and until when
//	("ld", queue, born, name)               link: what it is
//	("lo", queue, born, name)               the batch of it that is out
//	("g", queue, generation)                generation to be cleared
//	("z", due, kind, queue, …)              timers, in the order they fall due
//
// A place is (priority, count, random): the recipe's key. All of it but the
// priority is the tail, which an item keeps for life.
const (
	spaceFormat   = "v"
	spaceSecret   = "k"
	spaceTime     = "t"
	spaceWall     = "w"
	spaceSession  = "n"
	spaceGone     = "b"
	spaceState    = "q"
	spaceHigh     = "h"
	spaceArrivals = "a"
	spaceCounter  = "c"
	spaceReady    = "i"
	spaceDelayed  = "d"
	spaceLeased   = "l"
	spaceForward  = "f"
	spaceChunk    = "x"
	spaceUnique   = "j"
	spaceKeyed    = "ik"
	spaceKeyReady = "kr"
	spaceKeyBegun = "kb"
	spaceKeyHeld  = "kl"
	spaceKeyHead  = "kh"
	spaceKeyWaits = "kw"
	spaceTokensOf = "kt"
	spaceKeyFence = "kf"
	spaceSettings = "ks"
	spaceTokens   = "qt"
	spaceFairKey  = "fk"
	spaceUnnamed  = "fu"
	spaceClass    = "fc"
	spaceWeight   = "fw"
	spaceFence    = "m"
	spaceMsgID    = "u"
	spacePopID    = "p"
	spacePopItem  = "r"
	spaceRepeated = "y"
	spaceRequest  = "o"
	spaceResult   = "e"
	spaceGarbage  = "g"

	spaceSchedule      = "sd"
	spaceProgress      = "ss"
	spaceSchedules     = "sn"
	spaceDue           = "zs"
	spaceRunner        = "zr"
	spaceScheduleClock = "zc"
	spaceZones         = "zt"

	spaceSource       = "vd"
	spacePosition     = "vp"
	spaceSourceRunner = "vr"

	spaceLink = "ld"
	spaceOut  = "lo"

	spaceTimer   = "z"
	spaceSweeper = "s"
)

// rowKind says what is done about all rows of a space.
type rowKind struct {
	space string
	lasts lifetime
}

// lifetime says what the rows of a space end with at the latest.
type lifetime byte

const (
	ofStore      lifetime = iota // with the store: they are no queue's
	ofGeneration                 // with that of their queue, which is the third element of their keys
	untilDelete                  // with the delete of their queue
	beyondQueue                  // neither: what they are about is
)

// rowKinds are all kinds of rows that queues have, and those that lead to them. Check visits
// them in this order: rows before those that refer to them.
var rowKinds = [...]rowKind{
	{spaceState, beyondQueue},
	{spaceHigh, untilDelete},
	{spaceReady, ofGeneration},
	{spaceKeyed, ofGeneration},
	{spaceDelayed, ofGeneration},
	{spaceLeased, ofGeneration},
	{spaceKeyReady, ofGeneration},
	{spaceKeyBegun, ofGeneration},
	{spaceKeyHeld, ofGeneration},
	{spaceKeyHead, ofGeneration},
	{spaceKeyWaits, untilDelete},
	{spaceTokensOf, untilDelete},
	{spaceKeyFence, beyondQueue},
	{spaceSettings, untilDelete},
	{spaceTokens, untilDelete},
	{spaceFairKey, ofGeneration},
	{spaceUnnamed, ofGeneration},
	{spaceClass, ofGeneration},
	{spaceWeight, ofGeneration},
	{spaceMsgID, untilDelete},
	{spacePopID, untilDelete},
	{spacePopItem, untilDelete},
	{spaceRepeated, untilDelete},
	{spaceRequest, beyondQueue},
	{spaceResult, beyondQueue},
	{spaceForward, ofGeneration},
	{spaceUnique, ofGeneration},
	{spaceChunk, ofGeneration},
	{spaceTimer, ofStore},
	{spaceCounter, ofGeneration},
	{spaceSchedule, untilDelete},
	{spaceProgress, untilDelete},
	{spaceSchedules, untilDelete},
	{spaceDue, ofStore},
	{spaceSource, untilDelete},
	{spacePosition, untilDelete},
	{spaceSourceRunner, untilDelete},
	{spaceLink, untilDelete},
	{spaceOut, untilDelete},
	{spaceFence, ofGeneration},
	{spaceArrivals, beyondQueue},
	{spaceGarbage, beyondQueue},
}

// row returns the key of a store-wide row.
func row(space string) []byte {
	return tuple.AppendString(nil, space)
}

// queueRow returns the key of a row that a queue has outside its generations.
func queueRow(space, queue string) []byte {
	b := make([]byte, 0, len(space)+len(queue)+4)
	return tuple.AppendString(tuple.AppendString(b, space), queue)
}

// allRows is the range of the rows that a queue has outside its generations in a space.
func allRows(space, queue string) (begin, end []byte) {
	begin = queueRow(space, queue) // a row of its own in some spaces, which tuple.Range leaves out
	_, end = tuple.Range(begin)
	return begin, end
}

// generationPrefix returns the prefix of the keys of one space in one generation of
// a queue, with capacity for a place.
func generationPrefix(space, queue string, generation int64) []byte {
	b := make([]byte, 0, len(space)+len(queue)+64)
	return appendHome(tuple.AppendString(b, space), queue, generation)
}

// appendHome appends what follows the space in the keys of one generation of a queue.
func appendHome(key []byte, queue string, generation int64) []byte {
	return tuple.AppendInt(tuple.AppendString(key, queue), generation)
}
