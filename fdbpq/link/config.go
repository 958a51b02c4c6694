package link

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// Config is what an administrator sets of a link.
type Config struct {
	To     string `json:"to"` // the store id of the taker
	Paused bool   `json:"paused"`
}

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
