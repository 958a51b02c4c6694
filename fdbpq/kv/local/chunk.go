package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Pebble's logs and manifests consist of blocks of 32 KiB, which consist of
// chunks: a checksum, a length, a kind, for logs the number of the log, for
// newer logs how far the log was synced, and the content. A record is one chunk
// or several.
const (
	chunkBlock   = 32 << 10
	chunkHead    = 7  // checksum 4, length 2, kind 1
	chunkHeadLog = 11 // and the log's number 4
	chunkHeadNew = 19 // and how far the log was synced 8

	chunkLength = 4 // where they stand
	chunkKind   = 6
	chunkNumber = 7
	chunkSynced = 11
)

// chunkKinds are the kinds of chunks by the number that stands for them: how
// long their headers are, and whether a record begins and ends with them. Of
// manifests they are 1 to 4, of logs the others.
var chunkKinds = [...]struct {
	head        int
	first, last bool
}{
	1: {chunkHead, true, true}, 2: {chunkHead, true, false}, 3: {chunkHead, false, false}, 4: {chunkHead, false, true},
	5: {chunkHeadLog, true, true}, 6: {chunkHeadLog, true, false}, 7: {chunkHeadLog, false, false}, 8: {chunkHeadLog, false, true},
	9: {chunkHeadNew, true, true}, 10: {chunkHeadNew, true, false}, 11: {chunkHeadNew, false, false}, 12: {chunkHeadNew, false, true},
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a chunk, of all from its kind on.
func checksum(p []byte) uint32 {
	sum := crc32.Checksum(p, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// chunk is one that is whole: its checksum is right.
type chunk struct {
	at, end     int64 // in the file
	first, last bool  // of a record
	content     []byte
}

// parseChunk reads the chunk at the beginning of b, the rest of a block. Chunks
// of a log have its number; a manifest has none.
func parseChunk(b []byte, log bool, number uint32) (c chunk, size int, ok bool) {
	if len(b) < chunkHead || int(b[chunkKind]) >= len(chunkKinds) {
		return chunk{}, 0, false
	}
	kind := chunkKinds[b[chunkKind]]
	if kind.head == 0 || (kind.head != chunkHead) != log {
		return chunk{}, 0, false
	}
	size = kind.head + int(binary.LittleEndian.Uint16(b[chunkLength:]))
	if size > len(b) || log && binary.LittleEndian.Uint32(b[chunkNumber:]) != number {
		return chunk{}, 0, false
	}
	if binary.LittleEndian.Uint32(b) != checksum(b[chunkKind:size]) {
		return chunk{}, 0, false
	}
	return chunk{first: kind.first, last: kind.last, content: b[kind.head:size]}, size, true
}

// isPadding says whether b, the rest of a block, is what a writer leaves where no
// further chunk fits.
func isPadding(b []byte) bool {
	if len(b) >= chunkHeadNew {
		return false
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// isTrailer says whether b begins with what a writer leaves at the end of a log
// that it closes.
func isTrailer(b []byte, number uint32) bool {
	return len(b) >= chunkHeadLog && binary.LittleEndian.Uint32(b) == 0 && binary.LittleEndian.Uint16(b[chunkLength:]) == 0 &&
		b[chunkKind] == 5 && binary.LittleEndian.Uint32(b[chunkNumber:]) == number+1
}

// wholeness is what was found in a log or a manifest.
type scanResult struct {
	sound  int64 // offset of the first byte that belongs to no chunk
	behind int   // whole chunks behind that
}

// scanChunks calls use for each whole chunk of a log or a manifest, those behind
// damage and behind its end included. The content is use's until it returns.
func scanChunks(r io.Reader, log bool, number uint32, use func(chunk)) (s scanResult, err error) {
	block, numeral := make([]byte, chunkBlock), binary.LittleEndian.AppendUint32(nil, number)
	broken := false
	for base := int64(0); ; base += chunkBlock {
		n, err := io.ReadFull(r, block)
		for at := 0; at < n; {
			c, size, ok := parseChunk(block[at:n], log, number)
			switch {
			case ok:
				c.at, c.end = base+int64(at), base+int64(at+size)
				use(c)
				at += size
				if broken {
					s.behind++
				} else {
					s.sound = c.end
				}
			case log && !broken && isTrailer(block[at:n], number):
				at += chunkHeadLog
				s.sound, broken = base+int64(at), true
			case isPadding(block[at:n]):
				if at = n; !broken {
					s.sound = base + int64(n)
				}
			default:
				broken = true
				if at++; log {
					// No chunk begins before the next place that could hold the number.
					next := bytes.Index(block[min(at+chunkNumber, n):n], numeral)
					if at += next; next < 0 {
						at = n
					}
				}
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
	}
}

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
