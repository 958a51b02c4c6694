package local

import "encoding/binary"

// disclaimSync takes back what the chunks of a piece of a log say about how much
// of the log was synced before them. Where syncs do nothing that is wrong, and
// after a crash of the machine it would make of an end that was lost damage, with
// which the store does not open.
func clearSyncedOffsets(p []byte) {
	for len(p) >= chunkHeadNew {
		kind := p[chunkKind]
		end := chunkHeadNew + int(binary.LittleEndian.Uint16(p[chunkLength:]))
		if int(kind) >= len(chunkKinds) || chunkKinds[kind].head != chunkHeadNew || end > len(p) {
			return // the rest of a block, or the mark at the end
		}
		clear(p[chunkSynced:chunkHeadNew])
		binary.LittleEndian.PutUint32(p, checksum(p[chunkKind:end]))
		p = p[end:]
	}
}
