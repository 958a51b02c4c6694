package chain

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
)

// A copy goes over to a generation whose first record begins with just this copy, and to no
// other one.
func TestFirstRecordOfGeneration(t *testing.T) {
	t.Parallel()
	copied := Head{Entry: 9, Hash: [32]byte{7}, Store: ID{1}, Generation: 1, Epoch: 3}
	from := Base{Member: "a", Generation: 1, Entry: 9, Hash: hex.EncodeToString(copied.Hash[:])}
	for name, c := range map[string]struct {
		change func(*Record, *Base)
		behind bool // it goes on from another copy
	}{
		"another generation":       {change: func(r *Record, _ *Base) { r.Generation = 3 }},
		"another kind":             {change: func(r *Record, _ *Base) { r.Kind = Changes }},
		"another store":            {change: func(r *Record, _ *Base) { r.Store = ID{2} }},
		"of an earlier generation": {change: func(_ *Record, b *Base) { b.Generation = 0 }, behind: true},
		"of another entry":         {change: func(_ *Record, b *Base) { b.Entry = 8 }, behind: true},
		"of another hash":          {change: func(_ *Record, b *Base) { b.Hash = "00" }, behind: true},
		"":                         {},
	} {
		r, b := Record{Store: copied.Store, Generation: 2, Epoch: 4, Kind: Genesis}, from
		if c.change != nil {
			c.change(&r, &b)
		}
		payload, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = payload
		next, _, err := copied.Begin(r.Encode(), 2)
		switch {
		case c.change == nil && (err != nil || next.Generation != 2 || next.Entry != 1 || next.Epoch != 4):
			t.Errorf("the first record: %+v, %v", next, err)
		case c.change != nil && (err == nil || errors.Is(err, ErrBehind) != c.behind):
			t.Errorf("%s: %v", name, err)
		}
	}
}
