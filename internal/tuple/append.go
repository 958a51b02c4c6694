package tuple

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// AppendNil appends a nil that is not inside a nested tuple.
func AppendNil(b []byte) []byte { return append(b, codeNil) }

// AppendBool appends a boolean; false sorts before true.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, codeTrue)
	}
	return append(b, codeFalse)
}

// AppendInt appends an integer. Integers of all types share one order.
func AppendInt(b []byte, v int64) []byte {
	if v >= 0 {
		return AppendUint(b, uint64(v))
	}
	return appendNegative(b, -uint64(v))
}

// AppendUint appends an integer.
func AppendUint(b []byte, v uint64) []byte {
	n := byteLen(v)
	return appendLow(append(b, byte(codeIntZero+n)), v, n)
}

// appendNegative appends -magnitude, which must not be zero: one's complement
// makes the larger magnitude sort first.
func appendNegative(b []byte, magnitude uint64) []byte {
	n := byteLen(magnitude)
	return appendLow(append(b, byte(codeIntZero-n)), ^magnitude, n)
}

// byteLen returns how many bytes v takes, none for zero.
func byteLen(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// appendLow appends the n low bytes of v, big endian.
func appendLow(b []byte, v uint64, n int) []byte {
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], v)
	return append(b, all[8-n:]...)
}

var (
	errNilBig   = errors.New("tuple: a nil *big.Int is no integer")
	errBigRange = errors.New("tuple: expected an integer of at most 255 bytes")
)

// AppendBig appends an integer of up to 255 bytes.
func AppendBig(b []byte, v *big.Int) ([]byte, error) {
	if v == nil {
		return b, errNilBig
	}
	n := (v.BitLen() + 7) / 8
	switch {
	case n > 255:
		return b, errBigRange
	case n <= 8 && v.Sign() < 0:
		return appendNegative(b, new(big.Int).Neg(v).Uint64()), nil
	case n <= 8:
		return AppendUint(b, v.Uint64()), nil
	case v.Sign() > 0:
		return append(append(b, codePosBig, byte(n)), v.Bytes()...), nil
	}
	magnitude := v.Bytes()
	invert(magnitude)
	return append(append(b, codeNegBig, ^byte(n)), magnitude...), nil
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// AppendBytes appends a byte string.
func AppendBytes(b, v []byte) []byte {
	b = append(b, codeBytes)
	for {
		i := bytes.IndexByte(v, 0)
		if i < 0 {
			return append(append(b, v...), 0)
		}
		b = append(append(b, v[:i+1]...), escape)
		v = v[i+1:]
	}
}

// AppendString appends a string.
func AppendString(b []byte, v string) []byte {
	// The same as for bytes, because converting v would allocate.
	b = append(b, codeString)
	for {
		i := strings.IndexByte(v, 0)
		if i < 0 {
			return append(append(b, v...), 0)
		}
		b = append(append(b, v[:i+1]...), escape)
		v = v[i+1:]
	}
}

// AppendFloat32 appends a float, the bits of a NaN included.
func AppendFloat32(b []byte, v float32) []byte {
	u := math.Float32bits(v)
	return binary.BigEndian.AppendUint32(append(b, codeFloat32), u^flip32(u>>31 == 1))
}

// AppendFloat64 appends a float, the bits of a NaN included.
func AppendFloat64(b []byte, v float64) []byte {
	u := math.Float64bits(v)
	return binary.BigEndian.AppendUint64(append(b, codeFloat64), u^flip64(u>>63 == 1))
}

// flip32 and flip64 return the bits that change between a float and its
// encoding: all of them when it is negative, so that the larger magnitude
// sorts first, otherwise the sign.
func flip32(negative bool) uint32 {
	if negative {
		return math.MaxUint32
	}
	return 1 << 31
}

func flip64(negative bool) uint64 {
	if negative {
		return math.MaxUint64
	}
	return 1 << 63
}

// AppendUUID appends a UUID.
func AppendUUID(b []byte, v UUID) []byte { return append(append(b, codeUUID), v[:]...) }

var errIncomplete = errors.New("tuple: expected a complete versionstamp")

// AppendVersionstamp appends a versionstamp, which must be complete.
func AppendVersionstamp(b []byte, v Versionstamp) ([]byte, error) {
	if v.incomplete() {
		return b, errIncomplete
	}
	return append(append(b, codeVersionstamp), v[:]...), nil
}
