package fdbpq

import (
	"cmp"
	"encoding/base64"
	"errors"
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

// ID identifies an item as long as it exists. It is the place at which the item was
// pushed.
type ID struct {
	place place
}

// Priority is the priority with which the item was pushed.
func (id ID) Priority() int64 { return id.place.priority }

// ErrID: the id is malformed.
var ErrID = errors.New("not an item id: expected one as a push or a pop answered it")

// String returns the id in letters, digits, '-' and '_'.
func (id ID) String() string {
	var key [64]byte
	return base64.RawURLEncoding.EncodeToString(id.place.append(key[:0]))
}

// AppendText appends what String returns.
func (id ID) AppendText(b []byte) ([]byte, error) {
	var key [64]byte
	return base64.RawURLEncoding.AppendEncode(b, id.place.append(key[:0])), nil
}

// ParseID reads what [ID.String] wrote.
func ParseID(s string) (ID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips these
		return ID{}, ErrID
	}
	p, err := parsePlace(b)
	if err != nil {
		return ID{}, ErrID
	}
	_, rest, err := tuple.ConsumeInt([]byte(p.tail))
	if err != nil {
		return ID{}, ErrID
	}
	if _, rest, err = tuple.ConsumeBytes(rest); err != nil || len(rest) > 0 {
		return ID{}, ErrID
	}
	return ID{place: p}, nil
}
