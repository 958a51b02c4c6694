package link

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// Config is what an administrator sets of a link.
type Config struct {
	To     string `json:"to"` // the store id of the taker
	Paused bool   `json:"paused"`
}

// The bounds of links.
const (
	MaxCount      = 100 // of a queue
	MaxStoreCount = 1000
	MaxPage       = 100
)

var bounds = named.Bounds{Space: layout.SpaceLink, Queue: MaxCount, Store: MaxStoreCount, TooMany: ErrTooMany}

var (
	// ErrNone: the queue has no link of this name.
	ErrNone = errors.New("no such link")
	// ErrTooMany: there are as many links as there may be.
	ErrTooMany = errors.New("too many links")
)

var fieldNames = []string{"to", "paused"}

// merge returns the definition with the fields of the JSON object replaced.
func (c Config) merge(object []byte) (Config, error) {
	err := jsonfields.Check(object, fieldNames, false)
	if err == nil {
		err = jsonfields.Decode(object, &c)
	}
	switch {
	case err != nil:
		return c, wrong("%s", err.Error())
	case c.To == "":
		return c, wrong("to is missing: expected the id of the store that takes the items")
	case !isID(c.To):
		return c, wrong("to is %.100q: expected the id of a store", c.To)
	}
	return c, nil
}

// isID reports whether a text is empty, or may be a name: ids of stores and batches may.
func isID(s string) bool { return s == "" || named.CheckName(s) == nil }

// CheckName returns an error when a link may not have the name.
func CheckName(name string) error {
	if err := named.CheckName(name); err != nil {
		return wrong("%s", err.Error())
	}
	return nil
}
