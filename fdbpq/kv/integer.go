package kv

import "encoding/binary"

// EncodeInteger returns v as Add and Max keep it.
func EncodeInteger(v uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)
}

// DecodeInteger reads what Add and Max keep; a missing row counts as 0.
func DecodeInteger(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}
