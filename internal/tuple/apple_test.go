//go:build fdb

package tuple_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	. "github.com/pqbridge/pqbridge/internal/tuple"
)

// TestApple holds the encoding to apple's own, both ways.
func TestApple(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) { sameAsApple(t, g.tuple) })
	}
	rapid.Check(t, func(t *rapid.T) { sameAsApple(t, genTuple(3).Draw(t, "tuple")) })
}

func sameAsApple(t rapid.TB, ours Tuple) {
	b, err := ours.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if theirs := toApple(ours).Pack(); !bytes.Equal(b, theirs) {
		t.Fatalf("%v packs to %x, apple's to %x", ours, b, theirs)
	}
	back, err := tuple.Unpack(b)
	if err != nil {
		t.Fatalf("apple's does not unpack %x: %v", b, err)
	}
	if diff := gocmp.Diff(ours, fromApple(back), sameElement, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("apple's unpacks %x differently (-ours +apple's):\n%s", b, diff)
	}
}

func toApple(t Tuple) tuple.Tuple {
	out := make(tuple.Tuple, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case Tuple:
			out[i] = toApple(e)
		case UUID:
			out[i] = tuple.UUID(e)
		case Versionstamp:
			out[i] = tuple.Versionstamp{TransactionVersion: [10]byte(e[:10]), UserVersion: binary.BigEndian.Uint16(e[10:])}
		default:
			out[i] = e
		}
	}
	return out
}

func fromApple(t tuple.Tuple) Tuple {
	out := make(Tuple, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case tuple.Tuple:
			out[i] = fromApple(e)
		case tuple.UUID:
			out[i] = UUID(e)
		case tuple.Versionstamp:
			out[i] = Versionstamp(e.Bytes())
		default:
			out[i] = e
		}
	}
	return out
}
