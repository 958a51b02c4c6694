package tuple_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "github.com/pqbridge/pqbridge/internal/tuple"
)

func bigInt(s string) *big.Int {
	v, ok := new(big.Int).SetString(s, 0)
	if !ok {
		panic("no integer: " + s)
	}
	return v
}

// Bits, not values: a NaN equals itself and -0 is not 0.
var sameElement = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }),
}

var negNaN = math.Float64frombits(0xfff8000000000001)

// golden pairs tuples with the bytes that FoundationDB's specification gives
// them.
var golden = []struct {
	name  string
	tuple Tuple
	hex   string
}{
	{"empty", Tuple{}, ""},
	{"nil", Tuple{nil}, "00"},
	{"nils", Tuple{nil, nil}, "0000"},
	{"false", Tuple{false}, "26"},
	{"true", Tuple{true}, "27"},

	{"no bytes", Tuple{[]byte{}}, "0100"},
	{"spec bytes", Tuple{[]byte("foo\x00bar")}, "01 666f6f 00ff 626172 00"},
	{"zero byte", Tuple{[]byte{0}}, "01 00ff 00"},
	{"zero bytes", Tuple{[]byte{0, 0}}, "01 00ff 00ff 00"},
	{"zero at both ends", Tuple{[]byte{0, 1, 0}}, "01 00ff 01 00ff 00"},
	{"ff byte", Tuple{[]byte{0xff}}, "01 ff 00"},
	{"zero, ff", Tuple{[]byte{0, 0xff}}, "01 00ff ff 00"},
	{"ff, zero", Tuple{[]byte{0xff, 0}}, "01 ff 00ff 00"},

	{"no string", Tuple{""}, "0200"},
	{"spec string", Tuple{"F\u00d4O\x00bar"}, "02 46c3944f 00ff 626172 00"},
	{"zero string", Tuple{"\x00"}, "02 00ff 00"},
	{"zeros in string", Tuple{"\x00a\x00\x00"}, "02 00ff 61 00ff 00ff 00"},
	{"astral string", Tuple{"\U0001f525"}, "02 f09f94a5 00"},
	{"invalid UTF-8", Tuple{"\xff"}, "02 ff 00"},

	{"spec nested", Tuple{Tuple{[]byte("foo\x00bar"), nil, Tuple{}}}, "05 01666f6f00ff62617200 00ff 0500 00"},
	{"nested empty", Tuple{Tuple{}}, "05 00"},
	{"nested nil", Tuple{Tuple{nil}}, "05 00ff 00"},
	{"nested nils", Tuple{Tuple{nil, nil}}, "05 00ff 00ff 00"},
	{"nil twice nested", Tuple{Tuple{Tuple{nil}}}, "05 05 00ff 00 00"},
	{"nil around nested", Tuple{nil, Tuple{nil, Tuple{}, nil}, nil}, "00 05 00ff 0500 00ff 00 00"},
	{"nil after bytes, nested", Tuple{Tuple{[]byte("a"), nil}}, "05 016100 00ff 00"},
	{"zero integer, nested", Tuple{Tuple{int64(0), int64(256)}}, "05 14 160100 00"},

	{"0", Tuple{int64(0)}, "14"},
	{"1", Tuple{int64(1)}, "15 01"},
	{"-1", Tuple{int64(-1)}, "13 fe"},
	{"127", Tuple{int64(127)}, "15 7f"},
	{"128", Tuple{int64(128)}, "15 80"},
	{"255", Tuple{int64(255)}, "15 ff"},
	{"256", Tuple{int64(256)}, "16 0100"},
	{"-254", Tuple{int64(-254)}, "13 01"},
	{"-255", Tuple{int64(-255)}, "13 00"},
	{"-256", Tuple{int64(-256)}, "12 feff"},
	{"-257", Tuple{int64(-257)}, "12 fefe"},
	{"65535", Tuple{int64(65535)}, "16 ffff"},
	{"65536", Tuple{int64(65536)}, "17 010000"},
	{"-65535", Tuple{int64(-65535)}, "12 0000"},
	{"-65536", Tuple{int64(-65536)}, "11 feffff"},
	{"spec integer", Tuple{int64(-5551212)}, "11 ab4b93"},
	{"4 bytes", Tuple{int64(1 << 24)}, "18 01000000"},
	{"-4 bytes", Tuple{int64(-1 << 24)}, "10 feffffff"},
	{"5 bytes", Tuple{int64(1 << 32)}, "19 0100000000"},
	{"-5 bytes", Tuple{int64(-1 << 32)}, "0f feffffffff"},
	{"6 bytes", Tuple{int64(1 << 40)}, "1a 010000000000"},
	{"-6 bytes", Tuple{int64(-1 << 40)}, "0e feffffffffff"},
	{"7 bytes", Tuple{int64(1 << 48)}, "1b 01000000000000"},
	{"-7 bytes", Tuple{int64(-1 << 48)}, "0d feffffffffffff"},
	{"7 bytes, full", Tuple{int64(1<<56 - 1)}, "1b ffffffffffffff"},
	{"-7 bytes, full", Tuple{int64(-1<<56 + 1)}, "0d 00000000000000"},
	{"8 bytes", Tuple{int64(1 << 56)}, "1c 0100000000000000"},
	{"-8 bytes", Tuple{int64(-1 << 56)}, "0c feffffffffffffff"},
	{"max int64", Tuple{int64(math.MaxInt64)}, "1c 7fffffffffffffff"},
	{"-max int64", Tuple{int64(-math.MaxInt64)}, "0c 8000000000000000"},
	{"min int64", Tuple{int64(math.MinInt64)}, "0c 7fffffffffffffff"},
	{"max int64 + 1", Tuple{uint64(1 << 63)}, "1c 8000000000000000"},
	{"max uint64", Tuple{uint64(math.MaxUint64)}, "1c ffffffffffffffff"},
	{"min int64 - 1", Tuple{bigInt("-0x8000000000000001")}, "0c 7ffffffffffffffe"},
	{"-max uint64", Tuple{bigInt("-0xffffffffffffffff")}, "0c 0000000000000000"},
	{"2^64", Tuple{bigInt("0x10000000000000000")}, "1d 09 010000000000000000"},
	{"-2^64", Tuple{bigInt("-0x10000000000000000")}, "0b f6 feffffffffffffffff"},
	{"-(2^72-1)", Tuple{bigInt("-0xffffffffffffffffff")}, "0b f6 000000000000000000"},
	{"2^2040-1", Tuple{bigInt("0x" + strings.Repeat("ff", 255))}, "1d ff" + strings.Repeat("ff", 255)},
	{"-(2^2040-1)", Tuple{bigInt("-0x" + strings.Repeat("ff", 255))}, "0b 00" + strings.Repeat("00", 255)},

	{"spec float32", Tuple{float32(-42)}, "20 3dd7ffff"},
	{"float32 0", Tuple{float32(0)}, "20 80000000"},
	{"float32 -0", Tuple{float32(math.Copysign(0, -1))}, "20 7fffffff"},
	{"float32 inf", Tuple{float32(math.Inf(1))}, "20 ff800000"},
	{"float32 -inf", Tuple{float32(math.Inf(-1))}, "20 007fffff"},
	{"float32 NaN", Tuple{math.Float32frombits(0x7fc00000)}, "20 ffc00000"},
	{"float32 signalling NaN", Tuple{math.Float32frombits(0x7f800001)}, "20 ff800001"},
	{"float64 1", Tuple{float64(1)}, "21 bff0000000000000"},
	{"float64 -42", Tuple{float64(-42)}, "21 3fbaffffffffffff"},
	{"float64 0", Tuple{float64(0)}, "21 8000000000000000"},
	{"float64 -0", Tuple{math.Copysign(0, -1)}, "21 7fffffffffffffff"},
	{"float64 inf", Tuple{math.Inf(1)}, "21 fff0000000000000"},
	{"float64 -inf", Tuple{math.Inf(-1)}, "21 000fffffffffffff"},
	{"float64 NaN", Tuple{math.Float64frombits(0x7ff8000000000000)}, "21 fff8000000000000"},
	{"float64 -NaN", Tuple{negNaN}, "21 0007fffffffffffe"},
	{"float64 smallest", Tuple{math.SmallestNonzeroFloat64}, "21 8000000000000001"},

	{"UUID", Tuple{UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}}, "30 000102030405060708090a0b0c0d0eff"},
	{"versionstamp", Tuple{Versionstamp{0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0xff, 0xff}}, "33 00000000000000070001 ffff"},

	{"a queue's row", Tuple{"pq", int64(-3), int64(41), []byte{0, 9}}, "02707100 13fc 1529 0100ff0900"},
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := fromHex(t, g.hex)
			got, err := g.tuple.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("packs to %x, want %x", got, want)
			}
			back, err := Unpack(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.tuple, back, sameElement); diff != "" {
				t.Fatalf("unpacks differently (-want +got):\n%s", diff)
			}
		})
	}
}

// What packs to the same bytes comes back as one type.
func TestIntegerTypes(t *testing.T) {
	for _, tc := range []struct {
		pack, unpacked any
	}{
		{5, int64(5)},
		{-5, int64(-5)},
		{uint(5), int64(5)},
		{uint64(5), int64(5)},
		{uint64(math.MaxInt64), int64(math.MaxInt64)},
		{bigInt("0"), int64(0)},
		{bigInt("255"), int64(255)},
		{bigInt("-256"), int64(-256)},
		{bigInt("-0x8000000000000000"), int64(math.MinInt64)},
		{bigInt("0xffffffffffffffff"), uint64(math.MaxUint64)},
	} {
		b, err := Tuple{tc.pack}.Pack()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Unpack(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Tuple{tc.unpacked}, got, sameElement); diff != "" {
			t.Errorf("%T %v (-want +got):\n%s", tc.pack, tc.pack, diff)
		}
	}
}

func TestPackErrors(t *testing.T) {
	loop := Tuple{nil}
	loop[0] = loop
	deep := Tuple{}
	for range 1001 {
		deep = Tuple{deep}
	}
	for name, tc := range map[string]struct {
		tuple Tuple
		want  string
	}{
		"type":          {Tuple{nil, int32(1)}, "element 1 has type int32"},
		"nested type":   {Tuple{Tuple{struct{}{}}}, "type struct {}"},
		"nil big":       {Tuple{(*big.Int)(nil)}, "nil *big.Int"},
		"256 bytes":     {Tuple{new(big.Int).Lsh(big.NewInt(1), 2040)}, "at most 255 bytes"},
		"-256 bytes":    {Tuple{new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 2040))}, "at most 255 bytes"},
		"placeholder":   {Tuple{Versionstamp(bytes.Repeat([]byte{0xff}, 12))}, "complete versionstamp"},
		"itself":        {loop, "at most 1000 deep"},
		"nested deeply": {deep, "at most 1000 deep"},
	} {
		b, err := tc.tuple.Pack()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if b != nil {
			t.Errorf("%s: packed %x beside an error", name, b)
		}
	}
}

func TestUnpackErrors(t *testing.T) {
	for name, tc := range map[string]struct{ hex, want string }{
		"unknown code":            {"28", "type code 0x28"},
		"old nested":              {"03 04", "type code 0x03"},
		"old true":                {"25", "type code 0x25"},
		"escape":                  {"ff", "type code 0xff"},
		"unknown, nested":         {"05 f0 00", "type code 0xf0"},
		"nil behind bytes":        {"0161 00 ff", "within a string"}, // reads as an escaped zero
		"bytes without end":       {"01 6162", "within a string"},
		"bytes without any":       {"01", "within a string"},
		"bytes ending in escape":  {"01 61 00ff", "within a string"},
		"string without end":      {"02 6162", "within a string"},
		"nested without end":      {"05", "within a nested tuple"},
		"nested ending in nil":    {"05 00ff", "within a nested tuple"},
		"inner without end":       {"05 05 00", "within a nested tuple"},
		"integer without bytes":   {"15", "within an integer"},
		"short integer":           {"1c 01020304050607", "within an integer"},
		"short negative":          {"0c 01020304050607", "within an integer"},
		"padded":                  {"16 0001", "shortest form"},
		"padded zero":             {"15 00", "shortest form"},
		"padded negative":         {"12 fffe", "shortest form"},
		"padded -0":               {"13 ff", "shortest form"},
		"big without size":        {"1d", "within an integer"},
		"negative without size":   {"0b", "within an integer"},
		"short big":               {"1d 09 0102030405060708", "within an integer"},
		"short negative big":      {"0b f6 0102030405060708", "within an integer"},
		"big of eight bytes":      {"1d 08 0102030405060708", "shortest form"},
		"big of no bytes":         {"1d 00", "shortest form"},
		"padded big":              {"1d 09 000102030405060708", "shortest form"},
		"padded negative big":     {"0b f6 ff0102030405060708", "shortest form"},
		"negative of eight bytes": {"0b f7 0102030405060708", "shortest form"},
		"short float32":           {"20 808080", "within a float32"},
		"short float64":           {"21 80808080808080", "within a float64"},
		"short UUID":              {"30 0102030405060708090a0b0c0d0e0f", "within a UUID"},
		"short versionstamp":      {"33 0102030405060708090a0b", "within a versionstamp"},
		"placeholder":             {"33 ffffffffffffffffffff 0001", "complete versionstamp"},
		"nested deeply":           {strings.Repeat("05", 1001) + strings.Repeat("00", 1001), "at most 1000 deep"},
		"nested without bottom":   {strings.Repeat("05", 1_000_000), "at most 1000 deep"},
	} {
		got, err := Unpack(fromHex(t, tc.hex))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
		if got != nil {
			t.Errorf("%s: unpacked %v beside an error", name, got)
		}
	}
}

// The result of Unpack outlives its input.
func TestUnpackCopies(t *testing.T) {
	b := fromHex(t, "01616200 026300")
	got, err := Unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if diff := cmp.Diff(Tuple{[]byte("ab"), "c"}, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestRange(t *testing.T) {
	prefix := make([]byte, 2, 10) // room that must not be shared
	copy(prefix, "ab")
	begin, end := Range(prefix)
	if string(begin) != "ab\x00" || string(end) != "ab\xff" {
		t.Fatalf("Range = %q, %q", begin, end)
	}
	for _, g := range golden {
		key := append([]byte("ab"), fromHex(t, g.hex)...)
		inside := bytes.Compare(begin, key) <= 0 && bytes.Compare(key, end) < 0
		if want := len(g.tuple) > 0; inside != want {
			t.Errorf("%s: in range %v, want %v", g.name, inside, want)
		}
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, tc := range []struct{ prefix, want string }{
		{"a", "b"},
		{"a\x00", "a\x01"},
		{"a\xfe", "a\xff"},
		{"a\xff", "b"},
		{"a\xff\xff", "b"},
		{"\x00\xff", "\x01"},
		{"\xff\x00\xff", "\xff\x01"},
	} {
		prefix := []byte(tc.prefix)
		if got := PrefixEnd(prefix); string(got) != tc.want {
			t.Errorf("PrefixEnd(%q) = %q, want %q", tc.prefix, got, tc.want)
		}
		if string(prefix) != tc.prefix {
			t.Errorf("PrefixEnd changed %q to %q", tc.prefix, prefix)
		}
	}
	for _, none := range []string{"", "\xff", "\xff\xff\xff"} {
		if got := PrefixEnd([]byte(none)); got != nil {
			t.Errorf("PrefixEnd(%q) = %q, want none", none, got)
		}
	}
}
