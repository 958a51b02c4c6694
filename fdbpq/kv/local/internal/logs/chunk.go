package logs

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

	chunkLength = 4 // offsets
	chunkKind   = 6
	chunkNumber = 7
	chunkSynced = 11
)

// chunkKinds are the kinds of chunks by their number: the length of the header, and
// whether a record begins or ends with the chunk. Manifests have kinds 1 to 4, logs
// the others.
var chunkKinds = [...]struct {
	head        int
	first, last bool
}{
	1: {chunkHead, true, true}, 2: {chunkHead, true, false}, 3: {chunkHead, false, false}, 4: {chunkHead, false, true},
	5: {chunkHeadLog, true, true}, 6: {chunkHeadLog, true, false}, 7: {chunkHeadLog, false, false}, 8: {chunkHeadLog, false, true},
	9: {chunkHeadNew, true, true}, 10: {chunkHeadNew, true, false}, 11: {chunkHeadNew, false, false}, 12: {chunkHeadNew, false, true},
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns a chunk's checksum; p starts at the chunk's kind.
func checksum(p []byte) uint32 {
	sum := crc32.Checksum(p, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// chunk is a complete chunk with a valid checksum.
type Chunk struct {
	At, End     int64 // in the file
	First, Last bool  // of a record
	Content     []byte
}

// parseChunk reads the chunk at the beginning of b, the rest of a block. Chunks
// of a log have its number; a manifest has none.
func parseChunk(b []byte, log bool, number uint32) (c Chunk, size int, ok bool) {
	if len(b) < chunkHead || int(b[chunkKind]) >= len(chunkKinds) {
		return Chunk{}, 0, false
	}
	kind := chunkKinds[b[chunkKind]]
	if kind.head == 0 || (kind.head != chunkHead) != log {
		return Chunk{}, 0, false
	}
	size = kind.head + int(binary.LittleEndian.Uint16(b[chunkLength:]))
	if size > len(b) || log && binary.LittleEndian.Uint32(b[chunkNumber:]) != number {
		return Chunk{}, 0, false
	}
	if binary.LittleEndian.Uint32(b) != checksum(b[chunkKind:size]) {
		return Chunk{}, 0, false
	}
	return Chunk{First: kind.first, Last: kind.last, Content: b[kind.head:size]}, size, true
}

// isPadding reports whether b, the rest of a block, is padding where no further chunk
// fits.
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

// isTrailer reports whether b begins with the trailer of a closed log.
func isTrailer(b []byte, number uint32) bool {
	return len(b) >= chunkHeadLog && binary.LittleEndian.Uint32(b) == 0 && binary.LittleEndian.Uint16(b[chunkLength:]) == 0 &&
		b[chunkKind] == 5 && binary.LittleEndian.Uint32(b[chunkNumber:]) == number+1
}

// Extent is the result of reading a log or a manifest.
type Extent struct {
	Sound  int64 // offset of the first byte that belongs to no chunk
	Behind int   // complete chunks after that
}

// Scan calls use for each complete chunk of a log or a manifest, those after
// damage and after its end included. The content is valid until use returns.
func Scan(r io.Reader, log bool, number uint32, use func(Chunk)) (s Extent, err error) {
	block, numeral := make([]byte, chunkBlock), binary.LittleEndian.AppendUint32(nil, number)
	broken := false
	for base := int64(0); ; base += chunkBlock {
		n, err := io.ReadFull(r, block)
		for at := 0; at < n; {
			c, size, ok := parseChunk(block[at:n], log, number)
			switch {
			case ok:
				c.At, c.End = base+int64(at), base+int64(at+size)
				use(c)
				at += size
				if broken {
					s.Behind++
				} else {
					s.Sound = c.End
				}
			case log && !broken && isTrailer(block[at:n], number):
				at += chunkHeadLog
				s.Sound, broken = base+int64(at), true
			case isPadding(block[at:n]):
				if at = n; !broken {
					s.Sound = base + int64(n)
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

// clearSyncedOffsets clears the synced offsets in the chunks of a part of a log. They
// are wrong where syncs do nothing: after a crash of the machine, a lost end of the log
// would look like damage, and the store would not open.
func clearSyncedOffsets(p []byte) {
	for len(p) >= chunkHeadNew {
		kind := p[chunkKind]
		end := chunkHeadNew + int(binary.LittleEndian.Uint16(p[chunkLength:]))
		if int(kind) >= len(chunkKinds) || chunkKinds[kind].head != chunkHeadNew || end > len(p) {
			return // padding or a trailer
		}
		clear(p[chunkSynced:chunkHeadNew])
		binary.LittleEndian.PutUint32(p, checksum(p[chunkKind:end]))
		p = p[end:]
	}
}
