package layout

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
//	("x", queue, generation, suffix, n)     n-th part of a large payload
//	("j", queue, generation, unique)        place in the id of the item with this unique value
//	("ik", queue, generation, place)        ready item that has a key
//	("kr", queue, generation, key, place)   it is ready
//	("kb", queue, generation, key, place)   it is ready, and was leased before
//	("kl", queue, generation, key, suffix)  leased item that has a key, or one that waits between two leases in order
//	("kh", queue, generation, place)        key whose first ready item is there, or behind it
//	("kw", queue, due, key)                 key out of tokens that has ready items: when it gets one
//	("kt", queue, key)                      tokens of the key
//	("kt", queue)                           key behind which a timer looks for full buckets
//	("kk", queue, key)                      tokens of the key's cost
//	("kk", queue)                           key behind which a timer looks for full buckets
//	("kf", queue, key)                      last fence of the key
//	("kf", queue)                           key behind which a timer looks for fences that time has passed
//	("ks", queue, key)                      settings of the key
//	("qt", queue)                           tokens of the queue
//	("qk", queue)                           tokens of the queue's cost
//	("fk", queue, generation, order, class, tag, key)  key whose first ready item is in the class, or in a later one
//	("fu", queue, generation, order, class)            tag of the next item without a key
//	("fc", queue, generation, order, class)            virtual time of the class
//	("fw", queue, generation, key)          weight that a push gave the key
//	("m", queue, generation)                highest lower bound of a fence that an import has assigned
//	("u", queue, message id)                id of the item pushed with it
//	("p", queue, pop id)                    what the pop with it returned
//	("r", queue, pop id, n, …)              items popped for good with it
//	("pk", queue, end)                      bytes of answers to pops that are forgotten until then (add)
//	("y", queue, pop id)                    the pop was repeated: a delete keeps its id
//	("o", queue, count, random)             request of a staged pop
//	("e", queue, count, random)             what was reserved for it
//	("sd", queue, born, name)               schedule: what it is, and its item
//	("ss", queue, born, name)               how far it is
//	("sn", queue, born)                     how many there are
//	("zs", shard, due, queue, born, name)    schedules, in the order of the schedule times at which there is something to do
//	("zr")                                  the process that fires schedules, and until when
//	("zc")                                  schedule time minus store time
//	("zt")                                  oldest version of the tz database by which a schedule was planned
//	("vd", queue, born, kind, name)         source: what it is
//	("vp", queue, born, kind, name)         how far it is
//	("vr", queue, born, kind, name)         the bridge that runs it, and until when
//	("ld", queue, born, name)               link: what it is
//	("lo", queue, born, name)               the batch of it that is out
//	("re", queue, suffix)                   result of the item that had this suffix
//	("rx", queue, suffix, n)                n-th part of a large result
//	("ra", queue)                           grows when an item leaves a result (add)
//	("rt", queue, keep, finished, suffix)   a result, in the order in which those kept as long are forgotten
//	("eu", queue)                           when the queue was last used, if it deletes itself (max)
//	("el", queue)                           when a timer looks whether it is in use
//	("g", queue, generation)                generation to be cleared
//	("z", due, kind, queue, …)              timers, in the order they fall due
//
// A place is (priority, count, random): the recipe's key. All of it but the
// priority is the suffix, which an item keeps for life.
const (
	SpaceFormat   = "v"
	SpaceSecret   = "k"
	SpaceTime     = "t"
	SpaceWall     = "w"
	SpaceSession  = "n"
	SpaceGone     = "b"
	SpaceState    = "q"
	SpaceHigh     = "h"
	SpaceArrivals = "a"
	SpaceCounter  = "c"
	SpaceReady    = "i"
	SpaceDelayed  = "d"
	SpaceLeased   = "l"
	SpaceForward  = "f"
	SpaceChunk    = "x"
	SpaceUnique   = "j"
	SpaceKeyed    = "ik"
	SpaceKeyReady = "kr"
	SpaceKeyBegun = "kb"
	SpaceKeyHeld  = "kl"
	SpaceKeyHead  = "kh"
	SpaceKeyWaits = "kw"
	SpaceTokensOf = "kt"
	SpaceCostOf   = "kk"
	SpaceKeyFence = "kf"
	SpaceSettings = "ks"
	SpaceTokens   = "qt"
	SpaceCost     = "qk"
	SpaceFairKey  = "fk"
	SpaceUnnamed  = "fu"
	SpaceClass    = "fc"
	SpaceWeight   = "fw"
	SpaceOwed     = "fo"
	SpaceTag      = "ft"
	SpaceFence    = "m"
	SpaceMsgID    = "u"
	SpacePopID    = "p"
	SpacePopItem  = "r"
	SpaceAnswers  = "pk"
	SpaceRepeated = "y"
	SpaceRequest  = "o"
	SpaceResult   = "e"
	SpaceGarbage  = "g"

	SpaceSchedule      = "sd"
	SpaceProgress      = "ss"
	SpaceSchedules     = "sn"
	SpaceDue           = "zs"
	SpaceRunner        = "zr"
	SpaceScheduleClock = "zc"
	SpaceZones         = "zt"

	SpaceSource       = "vd"
	SpacePosition     = "vp"
	SpaceSourceRunner = "vr"

	SpaceLink = "ld"
	SpaceOut  = "lo"

	SpaceKept      = "re"
	SpaceKeptPart  = "rx"
	SpaceKeptSince = "rt"
	SpaceFinishes  = "ra"

	SpaceUsed = "eu"
	SpaceLook = "el"

	SpaceTimer   = "z"
	SpaceSweeper = "s"
)

// Row returns the key of a store-wide row.
func Row(space string) []byte {
	return tuple.AppendString(nil, space)
}

// QueueRow returns the key of a row that a queue has outside its generations.
func QueueRow(space, queue string) []byte {
	b := make([]byte, 0, len(space)+len(queue)+4)
	return tuple.AppendString(tuple.AppendString(b, space), queue)
}

// AllRows is the range of the rows that a queue has outside its generations in a space.
func AllRows(space, queue string) (begin, end []byte) {
	begin = QueueRow(space, queue) // a row of its own in some spaces, which tuple.Range leaves out
	_, end = tuple.Range(begin)
	return begin, end
}

// GenerationPrefix returns the prefix of the keys of one space in one generation of
// a queue, with capacity for a place.
func GenerationPrefix(space, queue string, generation int64) []byte {
	b := make([]byte, 0, len(space)+len(queue)+64)
	return AppendHome(tuple.AppendString(b, space), queue, generation)
}

// AppendHome appends what follows the space in the keys of one generation of a queue.
func AppendHome(key []byte, queue string, generation int64) []byte {
	return tuple.AppendInt(tuple.AppendString(key, queue), generation)
}

// Place is an item's position in its queue: the recipe's key. The suffix, an encoded
// count and a random part, never changes; a move changes the priority.
type Place struct {
	Priority int64
	Suffix   string
}

// NewSuffix encodes a count and 64 fresh random bits. Two processes that push at the
// same time may assign the same count; the random bits tell their keys apart and
// order them.
func NewSuffix(count int64) string {
	var b [32]byte
	var random [8]byte
	r := rand.Uint64()
	for i := range random {
		random[i] = byte(r >> (8 * i))
	}
	return string(tuple.AppendBytes(tuple.AppendInt(b[:0], count), random[:]))
}

// Append appends the part of a key that ParsePlace reads.
func (p Place) Append(b []byte) []byte {
	return append(tuple.AppendInt(b, p.Priority), p.Suffix...)
}

// ParsePlace reads a place from the part of a key behind its prefix.
func ParsePlace(b []byte) (Place, error) {
	priority, suffix, err := tuple.ConsumeInt(b)
	if err != nil {
		return Place{}, err
	}
	return Place{Priority: priority, Suffix: string(suffix)}, nil
}

// Compare is the order of places, which is that of their keys.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Priority, q.Priority), strings.Compare(p.Suffix, q.Suffix))
}

// Count returns the number in push order.
func (p Place) Count() (int64, error) {
	count, _, err := tuple.ConsumeInt([]byte(p.Suffix))
	return count, err
}

// JoinPlace makes one value of an item and its place.
func JoinPlace(p Place, e *Envelope) []byte {
	return e.Append(tuple.AppendBytes(nil, p.Append(nil)))
}

// SplitPlace returns the place and the item in a value of JoinPlace.
func SplitPlace(b []byte) (Place, []byte, error) {
	at, rest, err := tuple.ConsumeBytes(b)
	if err != nil {
		return Place{}, nil, err
	}
	p, err := ParsePlace(at)
	return p, rest, err
}

// AppendChunkKey appends to a prefix the key of the n-th row of the content of the item at p.
func AppendChunkKey(prefix []byte, p Place, n int64) []byte {
	b := make([]byte, 0, len(prefix)+len(p.Suffix)+4)
	b = append(append(b, prefix...), p.Suffix...)
	return tuple.AppendInt(b, n)
}

// RowKind says with what the rows of a space end.
type RowKind struct {
	Space string
	Lasts Lifetime
}

// Lifetime says what the rows of a space end with at the latest.
type Lifetime byte

const (
	OfStore      Lifetime = iota // with the store: they are no queue's
	OfGeneration                 // with that of their queue, which is the third element of their keys
	UntilDelete                  // with the delete of their queue
	BeyondQueue                  // neither: what they are about is
)

// RowKinds are all kinds of rows that queues have, and those that lead to them, in the order in which a check
// reads them: rows before those that refer to them.
var RowKinds = [...]RowKind{
	{SpaceState, BeyondQueue},
	{SpaceHigh, UntilDelete},
	{SpaceReady, OfGeneration},
	{SpaceKeyed, OfGeneration},
	{SpaceDelayed, OfGeneration},
	{SpaceLeased, OfGeneration},
	{SpaceKeyReady, OfGeneration},
	{SpaceKeyBegun, OfGeneration},
	{SpaceKeyHeld, OfGeneration},
	{SpaceKeyHead, OfGeneration},
	{SpaceKeyWaits, UntilDelete},
	{SpaceTokensOf, UntilDelete},
	{SpaceCostOf, UntilDelete},
	{SpaceKeyFence, BeyondQueue},
	{SpaceSettings, UntilDelete},
	{SpaceTokens, UntilDelete},
	{SpaceCost, UntilDelete},
	{SpaceFairKey, OfGeneration},
	{SpaceUnnamed, OfGeneration},
	{SpaceClass, OfGeneration},
	{SpaceWeight, OfGeneration},
	{SpaceOwed, OfGeneration},
	{SpaceTag, OfGeneration},
	{SpaceMsgID, UntilDelete},
	{SpacePopID, UntilDelete},
	{SpacePopItem, UntilDelete},
	{SpaceAnswers, UntilDelete},
	{SpaceRepeated, UntilDelete},
	{SpaceRequest, BeyondQueue},
	{SpaceResult, BeyondQueue},
	{SpaceForward, OfGeneration},
	{SpaceUnique, OfGeneration},
	{SpaceChunk, OfGeneration},
	{SpaceUsed, UntilDelete},
	{SpaceLook, UntilDelete},
	{SpaceTimer, OfStore},
	{SpaceCounter, OfGeneration},
	{SpaceSchedule, UntilDelete},
	{SpaceProgress, UntilDelete},
	{SpaceSchedules, UntilDelete},
	{SpaceDue, OfStore},
	{SpaceSource, UntilDelete},
	{SpacePosition, UntilDelete},
	{SpaceSourceRunner, UntilDelete},
	{SpaceLink, UntilDelete},
	{SpaceOut, UntilDelete},
	{SpaceKept, UntilDelete},
	{SpaceKeptPart, UntilDelete},
	{SpaceKeptSince, UntilDelete},
	{SpaceFinishes, UntilDelete},
	{SpaceFence, OfGeneration},
	{SpaceArrivals, BeyondQueue},
	{SpaceGarbage, BeyondQueue},
}
