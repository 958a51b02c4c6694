package tuple_test

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	. "github.com/pqbridge/pqbridge/internal/tuple"
)

// compare orders tuples as the package promises, knowing nothing of bytes.
func compare(a, b Tuple) int {
	for i := range min(len(a), len(b)) {
		if c := compareElements(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareElements(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return cmp.Compare(a, b.(string))
	case Tuple:
		return compare(a, b.(Tuple))
	case float32:
		return compareFloats(float64(a), float64(b.(float32)))
	case float64:
		return compareFloats(a, b.(float64))
	case UUID:
		other := b.(UUID)
		return bytes.Compare(a[:], other[:])
	case Versionstamp:
		other := b.(Versionstamp)
		return bytes.Compare(a[:], other[:])
	case int64, uint64, *big.Int:
		return widen(a).Cmp(widen(b))
	}
	return 0 // nil and booleans differ by rank
}

func rank(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case []byte:
		return 1
	case string:
		return 2
	case Tuple:
		return 3
	case int64, uint64, *big.Int:
		return 4
	case float32:
		return 5
	case float64:
		return 6
	case bool:
		if v {
			return 8
		}
		return 7
	case UUID:
		return 9
	case Versionstamp:
		return 10
	}
	panic("no rank")
}

func widen(v any) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case uint64:
		return new(big.Int).SetUint64(v)
	}
	return v.(*big.Int)
}

// compareFloats is the total order for all but NaNs, which are not generated.
func compareFloats(a, b float64) int {
	if a == 0 && b == 0 {
		return cmp.Compare(sign(a), sign(b))
	}
	return cmp.Compare(a, b)
}

func sign(f float64) int {
	if math.Signbit(f) {
		return -1
	}
	return 1
}

// The generators favour small alphabets and boundaries: interesting orders are
// between values that are nearly the same.
var (
	genBytes  = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 5, 0x14, 0xfe, 0xff}), 0, 5)
	genString = rapid.StringOfN(rapid.SampledFrom([]rune("\x00\x01a\u00ff\U0001f525")), 0, 5, -1)
	genInt    = rapid.Custom(func(t *rapid.T) int64 {
		v := int64(1)<<rapid.IntRange(0, 63).Draw(t, "bit") + rapid.Int64Range(-2, 2).Draw(t, "near")
		if rapid.Bool().Draw(t, "negative") {
			return -v
		}
		return v
	})
	genBig = rapid.Custom(func(t *rapid.T) *big.Int {
		v := new(big.Int).Lsh(big.NewInt(1), rapid.UintRange(65, 2039).Draw(t, "bit"))
		v.Add(v, big.NewInt(rapid.Int64Range(-2, 2).Draw(t, "near")))
		if rapid.Bool().Draw(t, "negative") {
			v.Neg(v)
		}
		return v
	})
)

func genElement(depth int) *rapid.Generator[any] {
	gens := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		genBytes.AsAny(),
		genString.AsAny(),
		genInt.AsAny(),
		rapid.Int64().AsAny(),
		rapid.Uint64Min(1 << 63).AsAny(),
		genBig.AsAny(),
		rapid.Float32().AsAny(),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1),
			math.MaxFloat64, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64}).AsAny(),
		rapid.Float64().AsAny(),
		rapid.Bool().AsAny(),
		rapid.Custom(func(t *rapid.T) any { return UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")) }),
		rapid.Custom(func(t *rapid.T) any {
			v := Versionstamp(rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "versionstamp"))
			v[0] &= 0x7f // complete
			return v
		}),
	}
	if depth > 0 {
		gens = append(gens, genTuple(depth-1).AsAny())
	}
	return rapid.OneOf(gens...)
}

func genTuple(depth int) *rapid.Generator[Tuple] {
	return rapid.Custom(func(t *rapid.T) Tuple {
		return append(Tuple{}, rapid.SliceOfN(genElement(depth), 0, 4).Draw(t, "tuple")...)
	})
}

// genPair returns two tuples that often share elements.
var genPair = rapid.Custom(func(t *rapid.T) [2]Tuple {
	gen := genTuple(2)
	common := gen.Draw(t, "common")
	extend := func(name string) Tuple {
		own := gen.Draw(t, name)
		pair := append(append(Tuple{}, common...), own...)
		if rapid.Bool().Draw(t, "nested") {
			return Tuple{pair}
		}
		return pair
	}
	return [2]Tuple{extend("a"), extend("b")}
})

func TestOrderAndRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pair := genPair.Draw(t, "pair")
		var packed [2][]byte
		for i, tuple := range pair {
			b, err := tuple.Pack()
			if err != nil {
				t.Fatal(err)
			}
			back, err := Unpack(b)
			if err != nil {
				t.Fatalf("%v packs to %x, which does not unpack: %v", tuple, b, err)
			}
			if diff := gocmp.Diff(tuple, back, sameElement); diff != "" {
				t.Fatalf("%x (-packed +unpacked):\n%s", b, diff)
			}
			packed[i] = b
		}
		if want, got := compare(pair[0], pair[1]), bytes.Compare(packed[0], packed[1]); got != want {
			t.Fatalf("tuples %v, %v compare %d\nbytes  %x, %x compare %d",
				pair[0], pair[1], want, packed[0], packed[1], got)
		}
	})
}

// NaNs have places of their own at both ends of the order.
func TestFloatOrder(t *testing.T) {
	sorted := []float64{negNaN, math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64,
		math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, 1, math.MaxFloat64, math.Inf(1), math.NaN()}
	for i := 1; i < len(sorted); i++ {
		a, b := AppendFloat64(nil, sorted[i-1]), AppendFloat64(nil, sorted[i])
		if bytes.Compare(a, b) >= 0 {
			t.Errorf("float64 %v does not sort before %v", sorted[i-1], sorted[i])
		}
		a, b = AppendFloat32(nil, float32(sorted[i-1])), AppendFloat32(nil, float32(sorted[i]))
		if float32(sorted[i-1]) != float32(sorted[i]) && bytes.Compare(a, b) >= 0 {
			t.Errorf("float32 %v does not sort before %v", sorted[i-1], sorted[i])
		}
	}
}

// FuzzUnpack: whatever unpacks packs to the same bytes, and nothing panics.
func FuzzUnpack(f *testing.F) {
	for _, g := range golden {
		b, err := g.tuple.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x0b, 0xf6, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0x05, 0x05, 0x01, 0x00, 0xff, 0x00, 0x00, 0xff, 0x00, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		tuple, err := Unpack(b)
		if err != nil {
			return
		}
		again, err := tuple.Pack()
		if err != nil {
			t.Fatalf("%x unpacks to %v, which does not pack: %v", b, tuple, err)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x unpacks to %v, which packs to %x", b, tuple, again)
		}
	})
}

// FuzzInt: integers come back, and sort as their bytes do.
func FuzzInt(f *testing.F) {
	for _, v := range []int64{0, 1, -1, 255, -255, 256, -256, 65535, -65535, math.MaxInt64, math.MinInt64} {
		f.Add(v, -v)
		f.Add(v, v+1)
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		packedA, packedB := AppendInt(nil, a), AppendInt(nil, b)
		if got, want := bytes.Compare(packedA, packedB), cmp.Compare(a, b); got != want {
			t.Errorf("%d, %d compare %d, their bytes %x, %x compare %d", a, b, want, packedA, packedB, got)
		}
		if v, rest, err := ConsumeInt(packedA); err != nil || v != a || len(rest) != 0 {
			t.Errorf("%d packs to %x, which is read as %d, rest %x, error %v", a, packedA, v, rest, err)
		}
		u := uint64(a)
		if v, rest, err := ConsumeUint(AppendUint(nil, u)); err != nil || v != u || len(rest) != 0 {
			t.Errorf("%d is read as %d, rest %x, error %v", u, v, rest, err)
		}
		if got, want := bytes.Compare(AppendUint(nil, u), AppendUint(nil, uint64(b))), cmp.Compare(u, uint64(b)); got != want {
			t.Errorf("%d, %d compare %d, their bytes %d", u, uint64(b), want, got)
		}
	})
}
