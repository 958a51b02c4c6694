package cluster

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// head is the last entry of a chain: it has all that is needed to check the next entry, or to write it. The zero
// value is the head of an empty log.
type head struct {
	Identity   string // of the log, as LogState has it
	Entry      uint64 // its number in the log
	Hash       hash
	Store      id
	Generation uint64
	Epoch      uint64
	Number     uint64 // within the epoch
	Process    id     // the writer of the epoch
	Released   bool   // the epoch's active member has stepped down
}

// headFormat is the version of encoded heads.
const headFormat = 1

// encode returns the position of a replica that has everything up to h.
func (h head) encode() []byte {
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

// decodeHead reads the position of a replica; a new one has none.
func decodeHead(b []byte) (h head, err error) {
	const size = 1 + 4*8 + len(h.Hash) + 2*len(h.Store) + 1
	switch {
	case b == nil:
		return head{}, nil
	case len(b) < size || b[0] != headFormat:
		return head{}, fmt.Errorf("this copy has a position in the log that this version cannot read: %x", b)
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

func hashOf(entry []byte) hash { return sha256.Sum256(entry) }

// next is the record that process writes behind h: in the epoch of h, or as the first record of the next epoch.
func (h head) next(process id, kind kind, payload []byte) record {
	r := record{
		store: h.Store, generation: h.Generation, epoch: h.Epoch, number: h.Number + 1,
		process: process, before: h.Hash, kind: kind, payload: payload,
	}
	if kind == kindEpoch {
		r.epoch, r.number = h.Epoch+1, 0
	}
	return r
}

// errDiffers: the entry belongs to another log than the copy.
var errDiffers = errors.New("copy and log differ")

// after returns the head behind an entry that follows h, and an error when the entry
// does not continue the chain.
func (h head) after(entry []byte) (head, record, error) {
	r, err := decodeRecord(entry)
	if err != nil {
		return h, r, err
	}
	next := h
	next.Entry++
	next.Hash = hashOf(entry)
	next.Epoch, next.Number, next.Process = r.epoch, r.number, r.process
	next.Released = r.kind == kindRelease
	switch {
	case h.Entry == 0:
		if r.kind != kindGenesis || r.generation != firstGeneration {
			return h, r, fmt.Errorf("the log begins with a record of kind %d and generation %d", r.kind, r.generation)
		}
		next.Store, next.Generation = r.store, r.generation
		return next, r, nil
	case r.store != h.Store:
		return h, r, fmt.Errorf("%w: it belongs to the store %x, this is a copy of %x", errDiffers, r.store, h.Store)
	case r.generation != h.Generation:
		return h, r, fmt.Errorf("%w: it belongs to generation %d, this is a copy of generation %d", errDiffers, r.generation, h.Generation)
	case r.before != h.Hash:
		return h, r, fmt.Errorf("%w: it follows another entry than the one that this copy has: the log has lost entries that were acknowledged: %s", errDiffers, advice)
	}
	switch r.kind {
	case kindEpoch:
		if r.epoch != h.Epoch+1 || r.number != 0 {
			return h, r, fmt.Errorf("it begins epoch %d after epoch %d", r.epoch, h.Epoch)
		}
	case kindChanges, kindFragment, kindRelease:
		if r.epoch != h.Epoch || r.number != h.Number+1 || r.process != h.Process || h.Released {
			return h, r, fmt.Errorf("it is number %d of epoch %d by process %x after number %d of epoch %d by %x", r.number, r.epoch, r.process, h.Number, h.Epoch, h.Process)
		}
	default:
		return h, r, fmt.Errorf("its kind is %d, which this version does not know", r.kind)
	}
	return next, r, nil
}
