package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// record is an entry of the log. Each one has the hash of the entry before it, so the
// log is a chain, and a copy of it is either a part of the chain or not.
type record struct {
	store      id     // the store to which the log belongs
	generation uint64 // of the log: it rises when an operator begins a new one
	epoch      uint64 // of the active member; it rises with each takeover
	number     uint64 // within the epoch; 0 is the record that begins it
	process    id     // the process that wrote it
	before     hash   // of the entry before
	kind       kind
	payload    []byte
}

type (
	id   [16]byte
	hash [sha256.Size]byte
)

func (i id) String() string { return hex.EncodeToString(i[:]) }

type kind byte

const (
	kindGenesis  kind = 1 // the first record; payload: nothing
	kindEpoch    kind = 2 // a member becomes active; payload: its name
	kindChanges  kind = 3 // transactions; payload: part, changes
	kindFragment kind = 4 // changes that go on in the next record; payload: part, changes
	kindRelease  kind = 5 // the active member steps down; payload: the member that follows it
)

// recordFormat is the version of the records that this program writes, and the newest
// that it reads.
const recordFormat = 1

const (
	recordTag  = "pqr"
	recordHead = len(recordTag) + 1 + 16 + 3*8 + 16 + sha256.Size + 1
	recordTail = 4 // checksum
)

var (
	errDamagedRecord = errors.New("its content is not what was written")
	castagnoli       = crc32.MakeTable(crc32.Castagnoli)
)

func (r record) encode() []byte {
	b := make([]byte, 0, recordHead+len(r.payload)+recordTail)
	b = append(b, recordTag...)
	b = append(b, recordFormat)
	b = append(b, r.store[:]...)
	b = binary.BigEndian.AppendUint64(b, r.generation)
	b = binary.BigEndian.AppendUint64(b, r.epoch)
	b = binary.BigEndian.AppendUint64(b, r.number)
	b = append(b, r.process[:]...)
	b = append(b, r.before[:]...)
	b = append(b, byte(r.kind))
	return seal(append(b, r.payload...))
}

// seal puts a checksum behind a message, and unseal returns the message if it is right.
func seal(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func unseal(b []byte) []byte {
	end := len(b) - recordTail
	if end < 0 || crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(b[end:]) {
		return nil
	}
	return b[:end]
}

// decodeRecord reads what encode writes. The payload is a part of b.
func decodeRecord(b []byte) (r record, err error) {
	if len(b) <= len(recordTag) || !bytes.HasPrefix(b, []byte(recordTag)) {
		return record{}, errDamagedRecord
	}
	if format := b[len(recordTag)]; format != recordFormat {
		return record{}, fmt.Errorf("its format is %d, expected %d: a newer version has written it, or it is damaged", format, recordFormat)
	}
	if b = unseal(b); len(b) < recordHead {
		return record{}, errDamagedRecord
	}
	b = b[len(recordTag)+1:]
	b = b[copy(r.store[:], b):]
	for _, field := range []*uint64{&r.generation, &r.epoch, &r.number} {
		*field = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	b = b[copy(r.process[:], b):]
	b = b[copy(r.before[:], b):]
	r.kind, r.payload = kind(b[0]), b[1:]
	return r, nil
}

// splitChanges cuts changes into the payloads of records of at most size bytes: all but
// the last are for fragments.
func splitChanges(changes []byte, size int) (payloads [][]byte) {
	size -= recordHead + recordTail + binary.MaxVarintLen64
	for part := uint64(0); ; part++ {
		n := min(size, len(changes))
		payloads = append(payloads, append(binary.AppendUvarint(nil, part), changes[:n]...))
		if changes = changes[n:]; len(changes) == 0 {
			return payloads
		}
	}
}

// assembly is changes that are spread over several records.
type assembly struct {
	parts   uint64
	changes []byte
}

// add adds the payload of a record. A part that does not continue the parts so far means that the writer has given
// those up.
func (a *assembly) add(payload []byte) error {
	part, n := binary.Uvarint(payload)
	switch {
	case n <= 0:
		return errDamagedRecord
	case part == 0:
		*a = assembly{}
	case part != a.parts:
		return fmt.Errorf("it has part %d of a transaction, expected part %d", part, a.parts)
	}
	a.parts++
	a.changes = append(a.changes, payload[n:]...)
	return nil
}
