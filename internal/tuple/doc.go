// Package tuple encodes tuples of values as bytes that sort like the tuples,
// byte for byte as FoundationDB's tuple layer does, so that rows written here
// can be read by every FoundationDB binding and the other way round.
//
// There are two layers. The Append and Consume functions write and read one
// element of a known type and do not allocate; they are for the rows of the
// hot paths. [Tuple] handles elements of any type.
//
// # What is guaranteed
//
// The order of two packed tuples is the order of the tuples: element by
// element, a prefix first. Elements of different types sort by type: nil, byte
// strings, strings, nested tuples, integers, float32, float64, false, true,
// UUIDs, versionstamps. Floats sort by IEEE 754's total order, hence -0 before
// 0 and NaNs at both ends.
//
// Exactly the output of [Tuple.Pack] can be read: what unpacks packs to the
// same bytes again, and all else is an error, never a panic. Encodings that
// no FoundationDB binding writes, such as an integer with leading zero bytes,
// are therefore refused, and so is the placeholder of a versionstamp that is
// still to be filled in. Strings are taken as they are: whether they are valid
// UTF-8 is not checked.
package tuple

// The type codes. An integer of n bytes has the code intZero+n when it is
// positive and intZero-n when it is negative.
const (
	codeNil          = 0x00
	codeBytes        = 0x01
	codeString       = 0x02
	codeNested       = 0x05
	codeNegBig       = 0x0b
	codeNegInt8      = 0x0c
	codeIntZero      = 0x14
	codePosInt8      = 0x1c
	codePosBig       = 0x1d
	codeFloat32      = 0x20
	codeFloat64      = 0x21
	codeFalse        = 0x26
	codeTrue         = 0x27
	codeUUID         = 0x30
	codeVersionstamp = 0x33
)

// A zero byte within a string, and nil within a nested tuple, are followed by
// escape; a zero byte without it ends the string or the nested tuple. No type
// code is escape, so the end cannot be mistaken.
const escape = 0xff

// UUID is the 16 bytes of an RFC 4122 UUID in network order.
type UUID [16]byte

// Versionstamp is a complete versionstamp: the ten bytes that the database
// assigned to a commit and two bytes of the writer's own, all big endian.
type Versionstamp [12]byte

// incomplete reports whether v is the placeholder that a database fills in when
// it commits. It depends on where the key starts, which this package does not
// know.
func (v Versionstamp) incomplete() bool {
	for _, c := range v[:10] {
		if c != 0xff {
			return false
		}
	}
	return true
}
