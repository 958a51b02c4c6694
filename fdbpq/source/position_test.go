package source

import (
	"bytes"
	"math"
	"testing"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// positionRow is the row of a position without a link, with numbers where no program writes them.
func positionRow(exact, content, stopContent int64) []byte {
	p := Position{Mark: Mark{Seq: 7}, From: fromSeq, Delivered: 5}
	b := tuple.AppendInt(tuple.AppendInt(nil, rowVersion), exact)
	for _, n := range []int64{7, 0, content, 0, 0, stopContent} {
		b = tuple.AppendInt(b, n)
	}
	for _, n := range p.numbers() {
		b = tuple.AppendInt(b, *n)
	}
	for _, text := range []string{p.From, "", ""} {
		b = tuple.AppendString(b, text)
	}
	return b
}

// A row that no program writes is damage: what it says more must not be lost when the position is written again.
func TestDamagedPosition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exact, content, stopContent int64
		sound                       bool
	}{
		"a mark that is not exact":       {0, 0, 0, true},
		"an exact mark":                  {1, 5, math.MaxUint32, true},
		"a mark that is twice exact":     {2, 5, 0, false},
		"a mark that is less than exact": {-1, 5, 0, false},
		"a long checksum":                {1, math.MaxUint32 + 1, 0, false},
		"a negative checksum":            {1, -1, 0, false},
		"a long checksum of the stop":    {1, 5, 1 << 40, false},
	} {
		row := positionRow(c.exact, c.content, c.stopContent)
		var p Position
		err := p.parse(row)
		if (err == nil) != c.sound {
			t.Errorf("%s is read as %+v, %v; expected it read: %v", name, p, err, c.sound)
		}
		if again := p.pack(); err == nil && !bytes.Equal(again, row) {
			t.Errorf("%s: %x is written as %x", name, row, again)
		}
	}
}

// FuzzPosition: a position that is read is written as it was, whatever bytes are in the store.
func FuzzPosition(f *testing.F) {
	for _, p := range []Position{
		{}, {Mark: Mark{Seq: math.MaxUint64, Subject: math.MaxUint64, Content: math.MaxUint32}, Exact: true, Created: -1, Revision: 3},
		{Stop: Stop{Reason: StopPoisoned, Text: "why", Since: 5, At: Mark{Seq: 2, Content: 9}}, Blocked: 7},
		{Mark: Mark{Seq: 3, Batch: "b", Part: 2, Next: "c"}, Exact: true, Giver: "g", Left: "1 2"}, {Left: "2"}, {Giver: "g", From: fromGiver},
	} {
		f.Add(p.pack())
	}
	f.Add(positionRow(2, 0, 0))
	f.Add(positionRow(1, math.MaxUint32+1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Position
		if p.parse(b) != nil {
			return
		}
		if again := p.pack(); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, p, again)
		}
	})
}
