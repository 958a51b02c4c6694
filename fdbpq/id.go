package fdbpq

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// ID identifies an item as long as it exists. It is the place at which the item was
// pushed.
type ID struct {
	place layout.Place
}

// idOf is the id of an item.
func idOf(l *layout.Item) ID { return ID{l.Home()} }

// Priority is the priority with which the item was pushed.
func (id ID) Priority() int64 { return id.place.Priority }

// ErrID: the id is malformed.
var ErrID = errors.New("not an item id: expected one as a push or a pop answered it")

// String returns the id in letters, digits, '-' and '_'.
func (id ID) String() string {
	var key [64]byte
	return base64.RawURLEncoding.EncodeToString(id.place.Append(key[:0]))
}

// AppendText appends what String returns.
func (id ID) AppendText(b []byte) ([]byte, error) {
	var key [64]byte
	return base64.RawURLEncoding.AppendEncode(b, id.place.Append(key[:0])), nil
}

// ParseID reads what [ID.String] wrote.
func ParseID(s string) (ID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips these
		return ID{}, ErrID
	}
	p, err := layout.ParsePlace(b)
	if err != nil {
		return ID{}, ErrID
	}
	_, rest, err := tuple.ConsumeInt([]byte(p.Suffix))
	if err != nil {
		return ID{}, ErrID
	}
	if _, rest, err = tuple.ConsumeBytes(rest); err != nil || len(rest) > 0 {
		return ID{}, ErrID
	}
	return ID{place: p}, nil
}
