package local

import (
	"encoding/binary"
	"errors"
)

// Changes are the effects of commits on the keys of a store, in order: for each operation its number and its byte
// strings, each string behind its length as a uvarint.
const (
	changeSet        = 1 // key, value
	changeClear      = 2 // key
	changeClearRange = 3 // begin, end
)

var errChanges = errors.New("kv/local: changes that this version cannot read")

func appendChange(b []byte, operation byte, parts ...[]byte) []byte {
	b = append(b, operation)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// encode appends the writes as changes. Atomic operations are resolved before.
func (w *writeSet) encode(b []byte) []byte {
	for _, r := range w.cleared {
		b = appendChange(b, changeClearRange, decodeKey(r.begin), decodeKey(r.end))
	}
	for _, i := range w.sorted {
		switch e, key := &w.entries[i], w.keys.key(i); {
		case e.kind == kindSet:
			b = appendChange(b, changeSet, decodeKey(key), w.value(e))
		case !w.cleared.contains(key):
			b = appendChange(b, changeClear, decodeKey(key))
		}
	}
	return b
}

// decode adds changes to the writes.
func (w *writeSet) decode(changes []byte) error {
	for len(changes) > 0 {
		operation := changes[0]
		first, rest, ok := cutString(changes[1:])
		var second []byte
		if ok && operation != changeClear {
			second, rest, ok = cutString(rest)
		}
		if !ok {
			return errChanges
		}
		changes = rest
		switch operation {
		case changeSet:
			w.set(first, second)
		case changeClear:
			w.clear(first)
		case changeClearRange:
			w.clearRange(first, second)
		default:
			return errChanges
		}
	}
	return w.refused
}

func cutString(b []byte) (first, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) < size {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
