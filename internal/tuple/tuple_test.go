package tuple

import (
	"bytes"
	"math"
	"testing"
)

// A reader reads what was packed, and nothing behind the first element that is not as expected.
func TestReader(t *testing.T) {
	t.Parallel()
	packed := AppendString(AppendBytes(AppendInt(AppendInt(nil, math.MinInt64), 7), []byte("a\x00b")), "text")
	r := Read(append(packed, 0x33))
	var a, b int64
	if r.Ints(&a, &b); a != math.MinInt64 || b != 7 {
		t.Errorf("read %d and %d", a, b)
	}
	if v := r.Bytes(); !bytes.Equal(v, []byte("a\x00b")) {
		t.Errorf("read %q", v)
	}
	if v := r.Text(); v != "text" || !r.More() || r.Err() != nil || !bytes.Equal(r.Rest(), []byte{0x33}) {
		t.Errorf("read %q, then there is %q, %v", v, r.Rest(), r.Err())
	}
	for name, read := range map[string]func(*Reader){
		"an integer": func(r *Reader) { r.Int() }, "bytes": func(r *Reader) { r.Bytes() }, "a string": func(r *Reader) { r.Text() },
	} {
		r := Read(packed)
		if r.Int(); name == "an integer" {
			r.Int()
		}
		read(&r)
		first := r.Err()
		if first == nil || r.More() {
			t.Errorf("%s where there is something else: %v, more: %t", name, first, r.More())
		}
		if n, v, s := r.Int(), r.Bytes(), r.Text(); n != 0 || v != nil || s != "" || r.Err() != first {
			t.Errorf("%s: after the error %v read %d, %q and %q, and got %v", name, first, n, v, s, r.Err())
		}
	}
}
