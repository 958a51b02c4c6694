package tuple

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// The Consume functions read the first element of b, which must have the type in their name, and return it with the
// rest of b.

// ConsumeNil reads a nil that is not inside a nested tuple.
func ConsumeNil(b []byte) (rest []byte, err error) {
	if len(b) == 0 || b[0] != codeNil {
		return nil, errType("nil", b)
	}
	return b[1:], nil
}

// ConsumeBool reads a boolean.
func ConsumeBool(b []byte) (v bool, rest []byte, err error) {
	if len(b) == 0 || b[0] != codeFalse && b[0] != codeTrue {
		return false, nil, errType("a boolean", b)
	}
	return b[0] == codeTrue, b[1:], nil
}

// ConsumeInt reads an integer that fits an int64.
func ConsumeInt(b []byte) (v int64, rest []byte, err error) {
	magnitude, negative, rest, err := consumeSmall(b)
	switch {
	case err != nil:
		return 0, nil, err
	case negative && magnitude <= 1<<63:
		return -int64(magnitude), rest, nil
	case !negative && magnitude <= math.MaxInt64:
		return int64(magnitude), rest, nil
	}
	return 0, nil, errors.New("tuple: the integer does not fit an int64")
}

// ConsumeUint reads an integer that fits a uint64.
func ConsumeUint(b []byte) (v uint64, rest []byte, err error) {
	magnitude, negative, rest, err := consumeSmall(b)
	if err != nil {
		return 0, nil, err
	}
	if negative {
		return 0, nil, errors.New("tuple: the integer does not fit a uint64")
	}
	return magnitude, rest, nil
}

// consumeSmall reads an integer of up to eight bytes.
func consumeSmall(b []byte) (magnitude uint64, negative bool, rest []byte, err error) {
	if len(b) == 0 || b[0] < codeNegInt8 || b[0] > codePosInt8 {
		return 0, false, nil, errType("an integer of up to eight bytes", b)
	}
	n := int(b[0]) - codeIntZero
	if negative = n < 0; negative {
		n = -n
	}
	if len(b) < 1+n {
		return 0, false, nil, errShort("an integer")
	}
	for _, c := range b[1 : 1+n] {
		magnitude = magnitude<<8 | uint64(c)
	}
	if negative {
		magnitude = ^magnitude & (math.MaxUint64 >> (64 - 8*n))
	}
	if byteLen(magnitude) != n {
		return 0, false, nil, errLong
	}
	return magnitude, negative, b[1+n:], nil
}

// ConsumeBig reads an integer of any size.
func ConsumeBig(b []byte) (v *big.Int, rest []byte, err error) {
	if len(b) == 0 || b[0] != codeNegBig && b[0] != codePosBig {
		magnitude, negative, rest, err := consumeSmall(b)
		if err != nil {
			return nil, nil, err
		}
		v := new(big.Int).SetUint64(magnitude)
		if negative {
			v.Neg(v)
		}
		return v, rest, nil
	}
	if len(b) < 2 {
		return nil, nil, errShort("an integer")
	}
	n, negative := int(b[1]), b[0] == codeNegBig
	if negative {
		n = int(^b[1])
	}
	if len(b) < 2+n {
		return nil, nil, errShort("an integer")
	}
	magnitude := bytes.Clone(b[2 : 2+n])
	if negative {
		invert(magnitude)
	}
	if n <= 8 || magnitude[0] == 0 {
		return nil, nil, errLong
	}
	v = new(big.Int).SetBytes(magnitude)
	if negative {
		v.Neg(v)
	}
	return v, b[2+n:], nil
}

// ConsumeBytes reads a byte string. It is a part of b, unless it has zero
// bytes: then it is a copy.
func ConsumeBytes(b []byte) (v, rest []byte, err error) {
	if len(b) == 0 || b[0] != codeBytes {
		return nil, nil, errType("a byte string", b)
	}
	return consumeEscaped(b[1:])
}

// ConsumeString reads a string.
func ConsumeString(b []byte) (v string, rest []byte, err error) {
	if len(b) == 0 || b[0] != codeString {
		return "", nil, errType("a string", b)
	}
	raw, rest, err := consumeEscaped(b[1:])
	return string(raw), rest, err
}

// consumeEscaped reads up to the first zero byte that is not escaped.
func consumeEscaped(b []byte) (v, rest []byte, err error) {
	end, escapes := 0, 0
	for {
		i := bytes.IndexByte(b[end:], 0)
		if i < 0 {
			return nil, nil, errShort("a string")
		}
		end += i
		if end+1 == len(b) || b[end+1] != escape {
			break
		}
		end += 2
		escapes++
	}
	// Without spare capacity, so that appending to it leaves b alone.
	v, rest = b[:end:end], b[end+1:]
	if escapes > 0 {
		v = unescape(v, escapes)
	}
	return v, rest, nil
}

func unescape(v []byte, escapes int) []byte {
	plain := make([]byte, 0, len(v)-escapes)
	for ; escapes > 0; escapes-- {
		i := bytes.IndexByte(v, 0)
		plain = append(plain, v[:i+1]...)
		v = v[i+2:]
	}
	return append(plain, v...)
}

// ConsumeFloat32 reads a float32.
func ConsumeFloat32(b []byte) (v float32, rest []byte, err error) {
	if err := expect(b, codeFloat32, 4, "a float32"); err != nil {
		return 0, nil, err
	}
	u := binary.BigEndian.Uint32(b[1:])
	return math.Float32frombits(u ^ flip32(u>>31 == 0)), b[5:], nil
}

// ConsumeFloat64 reads a float64.
func ConsumeFloat64(b []byte) (v float64, rest []byte, err error) {
	if err := expect(b, codeFloat64, 8, "a float64"); err != nil {
		return 0, nil, err
	}
	u := binary.BigEndian.Uint64(b[1:])
	return math.Float64frombits(u ^ flip64(u>>63 == 0)), b[9:], nil
}

// ConsumeUUID reads a UUID.
func ConsumeUUID(b []byte) (v UUID, rest []byte, err error) {
	if err := expect(b, codeUUID, len(v), "a UUID"); err != nil {
		return v, nil, err
	}
	return UUID(b[1:]), b[1+len(v):], nil
}

// ConsumeVersionstamp reads a complete versionstamp.
func ConsumeVersionstamp(b []byte) (v Versionstamp, rest []byte, err error) {
	if err := expect(b, codeVersionstamp, len(v), "a versionstamp"); err != nil {
		return v, nil, err
	}
	if v = Versionstamp(b[1:]); v.incomplete() {
		return v, nil, errIncomplete
	}
	return v, b[1+len(v):], nil
}

// expect checks that b starts with an element of a type and a fixed size.
func expect(b []byte, code byte, size int, what string) error {
	if len(b) == 0 || b[0] != code {
		return errType(what, b)
	}
	if len(b) < 1+size {
		return errShort(what)
	}
	return nil
}

var errLong = errors.New("tuple: expected an integer in its shortest form")

func errType(want string, b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("tuple: expected %s, found the end", want)
	}
	return fmt.Errorf("tuple: expected %s, found type code 0x%02x", want, b[0])
}

func errShort(what string) error {
	return fmt.Errorf("tuple: the end comes within %s", what)
}
