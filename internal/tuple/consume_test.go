package tuple_test

import (
	"bytes"
	"math"
	"math/big"
	"strings"
	"testing"

	. "github.com/pqbridge/pqbridge/internal/tuple"
)

// A row of one element of each kind, read back one after the other.
func TestConsumeRow(t *testing.T) {
	uuid := UUID{1, 2, 3}
	stamp := Versionstamp{4, 5, 6}
	huge := bigInt("-0x123456789abcdef0123")
	b := AppendString([]byte(nil), "jobs\x00")
	b = AppendInt(b, math.MinInt64)
	b = AppendUint(b, math.MaxUint64)
	b = AppendBytes(b, []byte("a\x00b"))
	b = AppendNil(b)
	b = AppendBool(b, true)
	b = AppendFloat32(b, -1.5)
	b = AppendFloat64(b, 2.25)
	b = AppendUUID(b, uuid)
	b, err := AppendVersionstamp(b, stamp)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = AppendBig(b, huge); err != nil {
		t.Fatal(err)
	}
	b = AppendInt(b, -1)

	ok := func(what string, held bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !held {
			t.Errorf("%s came back different", what)
		}
	}
	s, b, err := ConsumeString(b)
	ok("string", s == "jobs\x00", err)
	i, b, err := ConsumeInt(b)
	ok("int", i == math.MinInt64, err)
	u, b, err := ConsumeUint(b)
	ok("uint", u == math.MaxUint64, err)
	v, b, err := ConsumeBytes(b)
	ok("bytes", string(v) == "a\x00b", err)
	b, err = ConsumeNil(b)
	ok("nil", true, err)
	yes, b, err := ConsumeBool(b)
	ok("bool", yes, err)
	f32, b, err := ConsumeFloat32(b)
	ok("float32", f32 == -1.5, err)
	f64, b, err := ConsumeFloat64(b)
	ok("float64", f64 == 2.25, err)
	id, b, err := ConsumeUUID(b)
	ok("UUID", id == uuid, err)
	vs, b, err := ConsumeVersionstamp(b)
	ok("versionstamp", vs == stamp, err)
	n, b, err := ConsumeBig(b)
	ok("big", n.Cmp(huge) == 0, err)
	n, b, err = ConsumeBig(b)
	ok("small big", n.Cmp(big.NewInt(-1)) == 0, err)
	if len(b) != 0 {
		t.Errorf("%x is left", b)
	}
}

func TestConsumeErrors(t *testing.T) {
	consume := map[string]func([]byte) ([]byte, error){
		"nil":          ConsumeNil,
		"bool":         func(b []byte) ([]byte, error) { _, rest, err := ConsumeBool(b); return rest, err },
		"int":          func(b []byte) ([]byte, error) { _, rest, err := ConsumeInt(b); return rest, err },
		"uint":         func(b []byte) ([]byte, error) { _, rest, err := ConsumeUint(b); return rest, err },
		"big":          func(b []byte) ([]byte, error) { _, rest, err := ConsumeBig(b); return rest, err },
		"bytes":        func(b []byte) ([]byte, error) { _, rest, err := ConsumeBytes(b); return rest, err },
		"string":       func(b []byte) ([]byte, error) { _, rest, err := ConsumeString(b); return rest, err },
		"float32":      func(b []byte) ([]byte, error) { _, rest, err := ConsumeFloat32(b); return rest, err },
		"float64":      func(b []byte) ([]byte, error) { _, rest, err := ConsumeFloat64(b); return rest, err },
		"uuid":         func(b []byte) ([]byte, error) { _, rest, err := ConsumeUUID(b); return rest, err },
		"versionstamp": func(b []byte) ([]byte, error) { _, rest, err := ConsumeVersionstamp(b); return rest, err },
	}
	check := func(name string, b []byte, want string) {
		t.Helper()
		rest, err := consume[name](b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s from %x: error %v, want one with %q", name, b, err, want)
		}
		if rest != nil {
			t.Errorf("%s from %x: returned a rest beside an error", name, b)
		}
	}
	for name := range consume {
		check(name, nil, "found the end")
		check(name, []byte{0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "type code 0xfe")
	}
	for _, tc := range []struct{ name, hex, want string }{
		{"int", "1c 8000000000000000", "does not fit an int64"},
		{"int", "0c 7ffffffffffffffe", "does not fit an int64"},
		{"int", "0c 0000000000000000", "does not fit an int64"},
		{"int", "1d 09 010000000000000000", "up to eight bytes"},
		{"int", "16 0001", "shortest form"},
		{"uint", "13 fe", "does not fit a uint64"},
		{"uint", "0b f6 feffffffffffffffff", "up to eight bytes"},
		{"bytes", "026100", "type code 0x02"},
		{"string", "016100", "type code 0x01"},
		{"versionstamp", "33 ffffffffffffffffffff 0000", "complete"},
		{"uuid", "30 01", "within a UUID"},
		{"float32", "20 01", "within a float32"},
		{"float64", "21 01", "within a float64"},
	} {
		check(tc.name, fromHex(t, tc.hex), tc.want)
	}
}

// Bytes without a zero are not copied, yet appending to them harms nothing.
func TestConsumeBytesAliases(t *testing.T) {
	b := AppendInt(AppendBytes(nil, []byte("abc")), 7)
	v, rest, err := ConsumeBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if &v[0] != &b[1] {
		t.Error("the bytes were copied")
	}
	_ = append(v, "xyz"...)
	if n, _, err := ConsumeInt(rest); err != nil || n != 7 {
		t.Errorf("appending to the bytes changed what follows: %d, %v", n, err)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 8192)
	payload := bytes.Repeat([]byte("payload\x00"), 128)
	long := strings.Repeat("name", 100)
	plain := AppendInt(AppendBytes(nil, bytes.Repeat([]byte{1}, 1000)), -70000)
	var err error
	for name, fn := range map[string]func(){
		"append": func() {
			b := AppendString(buf, long)
			b = AppendInt(b, -70000)
			b = AppendUint(b, 1<<60)
			b = AppendBytes(b, payload)
			b = AppendNil(b)
			b = AppendBool(b, false)
			b = AppendFloat64(b, 1)
			buf = b[:0]
		},
		"consume": func() {
			var rest []byte
			if _, rest, err = ConsumeBytes(plain); err == nil {
				_, _, err = ConsumeInt(rest)
			}
		},
	} {
		if n := testing.AllocsPerRun(100, fn); n != 0 || err != nil {
			t.Errorf("%s: %v allocations, error %v", name, n, err)
		}
	}
}

func BenchmarkAppendRow(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 256)
	random := []byte("0123456789abcdefghij")
	for i := range int64(b.N) {
		buf = AppendInt(buf[:0], i-5)
		buf = AppendInt(buf, i*1000)
		buf = AppendBytes(buf, random)
	}
}

func BenchmarkConsumeRow(b *testing.B) {
	b.ReportAllocs()
	row := AppendBytes(AppendInt(AppendInt(nil, -5), 1_000_000), []byte("0123456789abcdefghij"))
	for range b.N {
		_, rest, err := ConsumeInt(row)
		if err == nil {
			_, rest, err = ConsumeInt(rest)
		}
		if err == nil {
			_, _, err = ConsumeBytes(rest)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPayload(b *testing.B) {
	payload := bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 64)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for range b.N {
		buf = AppendBytes(buf[:0], payload)
	}
}
