package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Head is the last entry of a chain: it has all that is needed to check the next entry, or to write it. The zero
// value is the head of an empty log.
type Head struct {
	Identity   string // of the log, as LogState has it
	Entry      uint64 // its number in the log
	Hash       Hash
	Store      ID
	Generation uint64
	Epoch      uint64
	Number     uint64 // within the epoch
	Process    ID     // the writer of the epoch
	Released   bool   // the epoch's active member has stepped down
}

// headFormat is the version of encoded heads. It begins at 2, as that of records.
const headFormat = 2

// Encode returns the position of a replica that has everything up to h.
func (h Head) Encode() []byte {
	b := make([]byte, 0, 128+len(h.Identity))
	b = append(b, headFormat)
	for _, n := range []uint64{h.Entry, h.Generation, h.Epoch, h.Number} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(b, h.Hash[:]...)
	b = append(b, h.Store[:]...)
	b = append(b, h.Process[:]...)
	released := byte(0)
	if h.Released {
		released = 1
	}
	b = append(b, released)
	return append(b, h.Identity...)
}

// DecodeHead reads the position of a replica; a new one has none.
func DecodeHead(b []byte) (h Head, err error) {
	const size = 1 + 4*8 + len(h.Hash) + 2*len(h.Store) + 1
	switch {
	case b == nil:
		return Head{}, nil
	case len(b) >= size && b[0] == headFormat-1:
		return Head{}, fmt.Errorf("an earlier version has written this copy. %s", Export)
	case len(b) < size || b[0] != headFormat || b[size-1] > 1: // a third word about the release would be written back as no
		return Head{}, fmt.Errorf("this copy has a position in the log that this version cannot read: %x", b)
	}
	b = b[1:]
	for _, n := range []*uint64{&h.Entry, &h.Generation, &h.Epoch, &h.Number} {
		*n = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	b = b[copy(h.Hash[:], b):]
	b = b[copy(h.Store[:], b):]
	b = b[copy(h.Process[:], b):]
	h.Released = b[0] == 1
	h.Identity = string(b[1:])
	return h, nil
}

// HashOf is the hash that the next record has of an entry.
func HashOf(entry []byte) Hash { return sha256.Sum256(entry) }

// Next is the record that process writes behind h: in the epoch of h, or as the first record of the next epoch.
func (h Head) Next(process ID, kind Kind, payload []byte) Record {
	r := Record{
		Store: h.Store, Generation: h.Generation, Epoch: h.Epoch, Number: h.Number + 1,
		Process: process, Before: h.Hash, Kind: kind, Payload: payload,
	}
	if kind == Epoch {
		r.Epoch, r.Number = h.Epoch+1, 0
	}
	return r
}

// After returns the head behind an entry that follows h, and an error when the entry
// does not continue the chain.
func (h Head) After(entry []byte) (Head, Record, error) {
	r, err := DecodeRecord(entry)
	if err != nil {
		return h, r, err
	}
	next := h
	next.Entry++
	next.Hash = HashOf(entry)
	next.Epoch, next.Number, next.Process = r.Epoch, r.Number, r.Process
	next.Released = r.Kind == Release
	switch {
	case h.Entry == 0:
		if r.Kind != Genesis || r.Generation != FirstGeneration {
			return h, r, fmt.Errorf("the log begins with a record of kind %d and generation %d", r.Kind, r.Generation)
		}
		next.Store, next.Generation = r.Store, r.Generation
		return next, r, nil
	case r.Store != h.Store:
		return h, r, fmt.Errorf("%w: it belongs to the store %x, this is a copy of %x", ErrDiffers, r.Store, h.Store)
	case r.Generation != h.Generation:
		return h, r, fmt.Errorf("%w: it belongs to generation %d, this is a copy of generation %d", ErrDiffers, r.Generation, h.Generation)
	case r.Before != h.Hash:
		return h, r, fmt.Errorf("%w: it follows another entry than the one that this copy has: the log has lost entries that were acknowledged: %s", ErrDiffers, Advice)
	}
	switch r.Kind {
	case Epoch:
		if r.Epoch != h.Epoch+1 || r.Number != 0 {
			return h, r, fmt.Errorf("it begins epoch %d after epoch %d", r.Epoch, h.Epoch)
		}
	case Changes, Fragment, Release:
		if r.Epoch != h.Epoch || r.Number != h.Number+1 || r.Process != h.Process || h.Released {
			return h, r, fmt.Errorf("it is number %d of epoch %d by process %x after number %d of epoch %d by %x", r.Number, r.Epoch, r.Process, h.Number, h.Epoch, h.Process)
		}
	default:
		return h, r, fmt.Errorf("its kind is %d, which this version does not know", r.Kind)
	}
	return next, r, nil
}

// is reports whether a copy has everything up to the base, and nothing more.
func (h Head) is(b Base) bool {
	return h.Generation == b.Generation && h.Entry == b.Entry && hex.EncodeToString(h.Hash[:]) == b.Hash
}

// Begin returns the head behind the first record of a generation that goes on from h, and ErrBehind if the
// generation goes on from another copy.
func (h Head) Begin(entry []byte, generation uint64) (Head, Base, error) {
	r, err := DecodeRecord(entry)
	var b Base
	switch {
	case err != nil:
		return h, b, err
	case r.Kind != Genesis || r.Generation != generation || json.Unmarshal(r.Payload, &b) != nil:
		return h, b, fmt.Errorf("it has kind %d and generation %d, expected the first record of generation %d", r.Kind, r.Generation, generation)
	case h.Entry > 0 && r.Store != h.Store:
		return h, b, fmt.Errorf("it belongs to the store %x, this is a copy of %x", r.Store, h.Store)
	case h.Entry == 0 || !h.is(b):
		return h, b, ErrBehind
	}
	return Head{Entry: 1, Hash: HashOf(entry), Store: r.Store, Generation: generation, Epoch: r.Epoch, Process: r.Process}, b, nil
}
