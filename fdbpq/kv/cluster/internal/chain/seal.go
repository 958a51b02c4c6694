package chain

import (
	"encoding/binary"
	"hash/crc32"
)

// SealSize is how many bytes the checksum has.
const SealSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal puts a checksum behind a message, and Unseal returns the message if it is right.
func Seal(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func Unseal(b []byte) []byte {
	end := len(b) - SealSize
	if end < 0 || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil
	}
	return b[:end]
}
