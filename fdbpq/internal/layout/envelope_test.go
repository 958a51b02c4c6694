package layout

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// filled is an envelope with a value in each field.
func filled() Envelope {
	return Envelope{
		Payload: []byte("p\x00"), Size: 5, HeaderSize: 3, Headers: []byte("h\x00h"), PushedAt: -1, Expires: 2, Tries: 3, Fence: 4, IDPriority: -5,
		Dead:     Death{Reason: "r", Origin: "o\x00", OriginID: "id", At: time.Unix(6, 7), Deliveries: 8, Interruptions: 9},
		MinFence: 10, ExtraAnswers: 11, Unique: "u\xff", UntilLeased: true, Key: "k\x00", Since: TakenAway, KeyFence: 12,
		Past: Past{Holder: "w", Attempts: "\x00\xff", Progress: "1/3", Reported: 17}, Endings: Endings{Interruptions: 13, Returns: 14, Unreceived: 15},
		TokensBack: TokenOfKey, Overhead: 16, Asks: 6,
	}
}

// Each field is read as it was written, and has a tag.
func TestFieldsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	all := filled()
	apart := Envelope{Chunks: 3, Size: 200_000, HeaderSize: 70_000, PushedAt: 1}
	answered := all.Answered()
	for name, e := range map[string]Envelope{"all": all, "no content in the row": apart, "what a repeated pop gets": answered, "nothing": {}} {
		got, err := ParseEnvelope(e.Append(nil), somePlace)
		if diff := cmp.Diff(e, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	var fields fields
	for tag := int64(tagHeaders); tag <= tagNewest; tag++ {
		known := tag == tagHeaders || fields.number(tag) != nil || fields.text(tag) != nil
		if left := tag > tagAsks && tag%2 != 0; known == left { // fields since then are such that earlier programs may leave as they are
			t.Errorf("no field has the tag %d", tag)
		}
	}
}

// A program that does not know a field keeps it, or refuses the item by the field's tag.
func TestFieldsOfLaterPrograms(t *testing.T) {
	t.Parallel()
	e := filled()
	const kept, refused = tagNewest + 2 - tagNewest%2, tagNewest + 1 + tagNewest%2
	later := tuple.AppendBytes(tuple.AppendInt(nil, kept), []byte("a\x00note"))
	later = tuple.AppendInt(tuple.AppendInt(later, kept+2), 7)
	row := append(e.Append(nil), later...)
	got, err := ParseEnvelope(row, somePlace)
	if err != nil || !bytes.Equal(got.Later, later) || got.Asks != e.Asks {
		t.Fatalf("read is %+v, %v; expected the fields %x kept", got, err, later)
	}
	got.Tries++
	e.Tries++
	if again := got.Append(nil); !bytes.Equal(again, append(e.Append(nil), later...)) {
		t.Errorf("written is %x, expected the fields %x at the end", again, later)
	}
	if elsewhere := got.Elsewhere(); elsewhere.Later != nil {
		t.Errorf("another queue gets %x", elsewhere.Later)
	}
	if answered := got.Answered(); answered.Later != nil {
		t.Errorf("a repeated pop gets %x", answered.Later)
	}
	_, err = ParseEnvelope(tuple.AppendInt(tuple.AppendInt(row, refused+4), 7), somePlace)
	if err == nil || !strings.Contains(err.Error(), "newer program") || strings.Contains(err.Error(), "damaged") {
		t.Errorf("a field that has to be understood: %v", err)
	}
}

// The row of a plain item has its payload and little more: what it does not use takes no bytes.
func TestBytesOfAPlainItem(t *testing.T) {
	t.Parallel()
	e := Envelope{Payload: []byte("payload"), Size: 7, PushedAt: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).UnixNano()}
	if n := len(e.Append(nil)) - len(e.Payload); n != 14 {
		t.Errorf("an item takes %d bytes besides its payload, expected 14", n)
	}
	e.Fence, e.Asks = 1, 1
	if n := len(e.Append(nil)) - len(e.Payload); n != 14+4+4 {
		t.Errorf("two fields more, and it takes %d bytes, expected 22", n)
	}
}
