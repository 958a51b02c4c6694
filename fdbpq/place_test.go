package fdbpq_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// An id is accepted in one form, that of its String.
func TestIDs(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", -5, "one")[0]
		text := id.String()
		if parsed, err := fdbpq.ParseID(text); err != nil || parsed != id {
			t.Errorf("ParseID(%s): %v, %v", text, parsed, err)
		}
		for _, bad := range []string{"", "x", text[1:], text[:len(text)-1], text + "A", text + "=", text + "AA", strings.ToLower(text), " " + text} {
			if parsed, err := fdbpq.ParseID(bad); err == nil && parsed == id {
				t.Errorf("ParseID(%q) accepts a second spelling", bad)
			}
		}
		key, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for what, bad := range map[string]string{
			"a line break":     text[:5] + "\n" + text[5:],
			"a byte too many":  base64.RawURLEncoding.EncodeToString(append(key, 0)),
			"a longer integer": base64.RawURLEncoding.EncodeToString(append([]byte{0x12, 0xff}, key[1:]...)),
		} {
			if parsed, err := fdbpq.ParseID(bad); !errors.Is(err, fdbpq.ErrID) {
				t.Errorf("ParseID of an id with %s: %v, %v; expected ErrID", what, parsed, err)
			}
		}
		for _, unknown := range []fdbpq.ID{{}, f.pushed("other", -5, "two")[0]} {
			if stored := f.get("q", unknown); stored != nil {
				t.Errorf("there is an item with id %v", unknown)
			}
		}
	})
}
