package tuple

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
)

// Tuple is a sequence of elements, each of them nil, []byte, string, Tuple,
// int, int64, uint, uint64, *big.Int, float32, float64, bool, [UUID] or
// [Versionstamp].
type Tuple []any

// maxDepth bounds how deep tuples nest, because a stack that overflows ends
// the process: input made for it, or a tuple that contains itself, must be an
// error instead.
const maxDepth = 1000

var errDepth = fmt.Errorf("tuple: expected tuples nested at most %d deep", maxDepth)

// Pack encodes t.
func (t Tuple) Pack() ([]byte, error) { return t.Append(nil) }

// Append appends the encoding of t to b.
func (t Tuple) Append(b []byte) ([]byte, error) { return t.append(b, 0) }

func (t Tuple) append(b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	var err error
	for i, e := range t {
		switch e := e.(type) {
		case nil:
			b = AppendNil(b)
			if depth > 0 {
				b = append(b, escape)
			}
		case []byte:
			b = AppendBytes(b, e)
		case string:
			b = AppendString(b, e)
		case Tuple:
			if b, err = e.append(append(b, codeNested), depth+1); err == nil {
				b = append(b, 0)
			}
		case int:
			b = AppendInt(b, int64(e))
		case int64:
			b = AppendInt(b, e)
		case uint:
			b = AppendUint(b, uint64(e))
		case uint64:
			b = AppendUint(b, e)
		case *big.Int:
			b, err = AppendBig(b, e)
		case float32:
			b = AppendFloat32(b, e)
		case float64:
			b = AppendFloat64(b, e)
		case bool:
			b = AppendBool(b, e)
		case UUID:
			b = AppendUUID(b, e)
		case Versionstamp:
			b, err = AppendVersionstamp(b, e)
		default:
			err = fmt.Errorf("tuple: element %d has type %T, which has no encoding", i, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Unpack decodes an encoded tuple. An integer comes back as an int64 if it fits one, otherwise as a uint64 if it
// fits that, otherwise as a *big.Int; everything else with its type. The tuple shares no memory with b.
func Unpack(b []byte) (Tuple, error) {
	t := Tuple{}
	for len(b) > 0 {
		e, rest, err := consumeAny(b, 0)
		if err != nil {
			return nil, err
		}
		t, b = append(t, e), rest
	}
	return t, nil
}

// consumeAny reads one element of any type, within depth tuples. A nil within a
// tuple is not its business.
func consumeAny(b []byte, depth int) (v any, rest []byte, err error) {
	switch code := b[0]; {
	case code == codeNil:
		rest, err = ConsumeNil(b)
	case code == codeBytes:
		var e []byte
		e, rest, err = ConsumeBytes(b)
		v = bytes.Clone(e)
	case code == codeString:
		v, rest, err = ConsumeString(b)
	case code == codeNested:
		v, rest, err = consumeNested(b[1:], depth+1)
	case code >= codeNegBig && code <= codePosBig:
		v, rest, err = consumeInteger(b)
	case code == codeFloat32:
		v, rest, err = ConsumeFloat32(b)
	case code == codeFloat64:
		v, rest, err = ConsumeFloat64(b)
	case code == codeFalse || code == codeTrue:
		v, rest, err = ConsumeBool(b)
	case code == codeUUID:
		v, rest, err = ConsumeUUID(b)
	case code == codeVersionstamp:
		v, rest, err = ConsumeVersionstamp(b)
	default:
		err = errType("an element", b)
	}
	return v, rest, err
}

// consumeNested reads the elements of a nested tuple and its end.
func consumeNested(b []byte, depth int) (t Tuple, rest []byte, err error) {
	if depth > maxDepth {
		return nil, nil, errDepth
	}
	t = Tuple{}
	for len(b) > 0 {
		if b[0] == codeNil {
			if len(b) == 1 || b[1] != escape {
				return t, b[1:], nil
			}
			t, b = append(t, nil), b[2:]
			continue
		}
		e, rest, err := consumeAny(b, depth)
		if err != nil {
			return nil, nil, err
		}
		t, b = append(t, e), rest
	}
	return nil, nil, errShort("a nested tuple")
}

// consumeInteger reads an integer as the first of int64, uint64 and *big.Int
// that holds it.
func consumeInteger(b []byte) (v any, rest []byte, err error) {
	if b[0] == codeNegBig || b[0] == codePosBig {
		return ConsumeBig(b)
	}
	magnitude, negative, rest, err := consumeSmall(b)
	switch {
	case err != nil:
		return nil, nil, err
	case negative && magnitude > 1<<63:
		return ConsumeBig(b)
	case negative:
		return -int64(magnitude), rest, nil
	case magnitude > math.MaxInt64:
		return magnitude, rest, nil
	}
	return int64(magnitude), rest, nil
}

// Range returns the bounds, begin <= key < end, of the keys that are prefix
// followed by a packed tuple of at least one element; prefix itself is not
// among them.
func Range(prefix []byte) (begin, end []byte) {
	// Every type code is below 0xff.
	return appended(prefix, 0x00), appended(prefix, 0xff)
}

func appended(prefix []byte, c byte) []byte {
	b := make([]byte, 0, len(prefix)+1)
	return append(append(b, prefix...), c)
}

// PrefixEnd returns the first key after all keys that start with prefix, or nil if there is none because prefix has
// only 0xff bytes.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			return appended(prefix[:i], prefix[i]+1)
		}
	}
	return nil
}

// Reader reads the elements of a packed tuple one after the other. After an error it reads zero
// values, so one look at Err is enough.
type Reader struct {
	rest []byte
	err  error
}

// Read returns a reader of b. The values that it reads refer to b.
func Read(b []byte) Reader { return Reader{rest: b} }

// Int reads an integer.
func (r *Reader) Int() (v int64) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeInt(r.rest)
	}
	return v
}

// Ints reads integers.
func (r *Reader) Ints(to ...*int64) {
	for _, v := range to {
		*v = r.Int()
	}
}

// Bytes reads a byte string.
func (r *Reader) Bytes() (v []byte) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeBytes(r.rest)
	}
	return v
}

// Text reads a string.
func (r *Reader) Text() (v string) {
	if r.err == nil {
		v, r.rest, r.err = ConsumeString(r.rest)
	}
	return v
}

// Skip reads an element of any type.
func (r *Reader) Skip() {
	switch {
	case r.err != nil:
	case len(r.rest) == 0:
		r.err = errShort("an element")
	default:
		_, r.rest, r.err = consumeAny(r.rest, 0)
	}
}

// More reports whether there are elements left.
func (r *Reader) More() bool { return r.err == nil && len(r.rest) > 0 }

// Rest is the part that was not read.
func (r *Reader) Rest() []byte { return r.rest }

// Err is the first error, nil if there was none.
func (r *Reader) Err() error { return r.err }
