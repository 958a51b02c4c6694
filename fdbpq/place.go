package fdbpq

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// place is an item's position in its queue: the recipe's key. The tail, an encoded
// count and a random part, never changes; Move changes the priority.
type place struct {
	priority int64
	tail     string
}

// newTail encodes a count and 64 fresh random bits. Two processes that push at the
// same time may assign the same count; the random bits tell their keys apart and
// order them.
func newTail(count int64) string {
	var b [32]byte
	var random [8]byte
	r := rand.Uint64()
	for i := range random {
		random[i] = byte(r >> (8 * i))
	}
	return string(tuple.AppendBytes(tuple.AppendInt(b[:0], count), random[:]))
}

func (p place) append(b []byte) []byte {
	return append(tuple.AppendInt(b, p.priority), p.tail...)
}

// parsePlace reads a place from the part of a key behind its prefix.
func parsePlace(b []byte) (place, error) {
	priority, tail, err := tuple.ConsumeInt(b)
	if err != nil {
		return place{}, err
	}
	return place{priority: priority, tail: string(tail)}, nil
}

// compare is the order of places, which is that of their keys.
func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.priority, q.priority), strings.Compare(p.tail, q.tail))
}

// count returns the number in push order.
func (p place) count() (int64, error) {
	count, _, err := tuple.ConsumeInt([]byte(p.tail))
	return count, err
}

// joinPlace and splitPlace convert an item and its place to and from one value.
func joinPlace(p place, e *envelope) []byte {
	return e.append(tuple.AppendBytes(nil, p.append(nil)))
}

func splitPlace(b []byte) (place, []byte, error) {
	at, rest, err := tuple.ConsumeBytes(b)
	if err != nil {
		return place{}, nil, err
	}
	p, err := parsePlace(at)
	return p, rest, err
}

func appendChunkKey(prefix []byte, p place, n int64) []byte {
	b := make([]byte, 0, len(prefix)+len(p.tail)+4)
	b = append(append(b, prefix...), p.tail...)
	return tuple.AppendInt(b, n)
}
