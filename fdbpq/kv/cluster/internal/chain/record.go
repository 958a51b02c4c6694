package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
)

// Record is an entry of the log. Each one has the hash of the entry before it, so the
// log is a chain, and a copy of it is either a part of the chain or not.
type Record struct {
	Store      ID     // the store to which the log belongs
	Generation uint64 // of the log: it rises when an operator begins a new one
	Epoch      uint64 // of the active member; it rises with each takeover
	Number     uint64 // within the epoch; 0 is the record that begins it
	Process    ID     // the process that wrote it
	Before     Hash   // of the entry before
	Kind       Kind
	Payload    []byte
}

type (
	// ID names a store or a process. It is random.
	ID [16]byte

	// Hash is that of an entry.
	Hash [sha256.Size]byte
)

func (i ID) String() string { return hex.EncodeToString(i[:]) }

// Kind says what a record is for.
type Kind byte

const (
	Genesis  Kind = 1 // the first record; payload: nothing
	Epoch    Kind = 2 // a member becomes active; payload: its name
	Changes  Kind = 3 // transactions; payload: part, changes
	Fragment Kind = 4 // changes that go on in the next record; payload: part, changes
	Release  Kind = 5 // the active member steps down; payload: the member that follows it
)

// RecordFormat is the version of the records that this program reads and writes. It begins at 2: programs before the first
// release wrote 1, and refuse 2.
const RecordFormat = 2

const (
	recordTag  = "pqr"
	recordHead = len(recordTag) + 1 + 16 + 3*8 + 16 + sha256.Size + 1
)

// Encode returns the entry of the log that a record is.
func (r Record) Encode() []byte {
	b := make([]byte, 0, recordHead+len(r.Payload)+SealSize)
	b = append(b, recordTag...)
	b = append(b, RecordFormat)
	b = append(b, r.Store[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Generation)
	b = binary.BigEndian.AppendUint64(b, r.Epoch)
	b = binary.BigEndian.AppendUint64(b, r.Number)
	b = append(b, r.Process[:]...)
	b = append(b, r.Before[:]...)
	b = append(b, byte(r.Kind))
	return Seal(append(b, r.Payload...))
}

// DecodeRecord reads what Encode writes. The payload is a part of b.
func DecodeRecord(b []byte) (r Record, err error) {
	if len(b) <= len(recordTag) || !bytes.HasPrefix(b, []byte(recordTag)) {
		return Record{}, ErrDamaged
	}
	if format := b[len(recordTag)]; format != RecordFormat {
		if format == RecordFormat-1 {
			return Record{}, fmt.Errorf("its format is %d, expected %d: an earlier version has written it. %s", format, RecordFormat, Export)
		}
		return Record{}, fmt.Errorf("its format is %d, expected %d: a newer version has written it, or it is damaged", format, RecordFormat)
	}
	if b = Unseal(b); len(b) < recordHead {
		return Record{}, ErrDamaged
	}
	b = b[len(recordTag)+1:]
	b = b[copy(r.Store[:], b):]
	for _, field := range []*uint64{&r.Generation, &r.Epoch, &r.Number} {
		*field = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	b = b[copy(r.Process[:], b):]
	b = b[copy(r.Before[:], b):]
	r.Kind, r.Payload = Kind(b[0]), b[1:]
	return r, nil
}

// FirstGeneration is the generation of a new store's log.
const FirstGeneration = 1

// Base is the payload of the record that begins a generation: the position of the copy with which it begins.
type Base struct {
	Member     string `json:"member"` // that has the copy
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Hash       string `json:"hash"`
}

// ErrDamaged: a record, or a part of a message, has changed since it was written.
var ErrDamaged = errors.New("its content is not what was written")

// ErrBehind: the log no longer has the entries that this copy lacks.
var ErrBehind = errors.New("the log no longer has what this copy lacks")

// ErrDiffers: the entry belongs to another log than the copy.
var ErrDiffers = errors.New("copy and log differ")

// Export tells an operator how to go on with a store of before the first release.
const Export = `Export its queues with the pqd that wrote it (pq export), and import them into a new store (pq import)`

// Advice tells an operator what to do about a log that has lost entries.
const Advice = `if this does not pass by itself, run "pqd recover" beside this pqd: it says what is lost before it does anything`

// Split cuts changes into the payloads of records of at most size bytes: all but
// the last are for fragments.
func Split(changes []byte, size int) (payloads [][]byte) {
	size -= recordHead + SealSize + binary.MaxVarintLen64
	for part := uint64(0); ; part++ {
		n := min(size, len(changes))
		payloads = append(payloads, append(binary.AppendUvarint(nil, part), changes[:n]...))
		if changes = changes[n:]; len(changes) == 0 {
			return payloads
		}
	}
}

// Parts are changes that are spread over several records.
type Parts struct {
	count   uint64
	Changes []byte
}

// Add adds the payload of a record. A part that does not continue the parts so far means that the writer has given
// those up.
func (p *Parts) Add(payload []byte) error {
	part, n := binary.Uvarint(payload)
	switch {
	case n <= 0:
		return ErrDamaged
	case part == 0:
		*p = Parts{}
	case part != p.count:
		return fmt.Errorf("it has part %d of a transaction, expected part %d", part, p.count)
	}
	p.count++
	p.Changes = append(p.Changes, payload[n:]...)
	return nil
}

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
