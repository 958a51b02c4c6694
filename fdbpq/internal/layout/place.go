package layout

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
