package local

import (
	"encoding/binary"
	"hash/crc32"
)

// The layout of a chunk of a log, as far as it matters here: checksum, length,
// kind, number of the log, and how much of the log had been synced before. A
// record stands in one chunk or several.
const (
	chunkLength   = 4
	chunkKind     = 6
	chunkSynced   = 11
	chunkHeader   = 19
	firstSyncKind = 9 // of the kinds that say how much was synced
	lastSyncKind  = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// disclaimSync takes back what the chunks of a piece of a log say about how much
// of the log was synced before them. Where syncs do nothing that is wrong, and
// after a crash of the machine it would make of an end that was lost damage, with
// which the store does not open.
func disclaimSync(p []byte) {
	for len(p) >= chunkHeader {
		kind := p[chunkKind]
		end := chunkHeader + int(binary.LittleEndian.Uint16(p[chunkLength:]))
		if kind < firstSyncKind || kind > lastSyncKind || end > len(p) {
			return // the rest of a block, or the mark at the end
		}
		clear(p[chunkSynced:chunkHeader])
		binary.LittleEndian.PutUint32(p, checksum(p[chunkKind:end]))
		p = p[end:]
	}
}

// checksum is that of the store's logs.
func checksum(p []byte) uint32 {
	sum := crc32.Checksum(p, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
