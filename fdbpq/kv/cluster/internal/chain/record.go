package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
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
