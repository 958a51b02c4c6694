package chain

import (
	"encoding/binary"
	"fmt"
)

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
