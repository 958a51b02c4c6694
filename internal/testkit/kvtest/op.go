package kvtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// everything is the end of the range of all keys that the suite uses. Keys that
// begin with 0xff are FoundationDB's own.
const everything = "\xff"

type opKind int

const (
	opSet opKind = iota
	opClear
	opClearRange
	opAdd
	opMax
	opKinds // how many there are
)

// op is a write that can be applied to a transaction and to the model alike.
type op struct {
	kind  opKind
	key   string
	end   string // of opClearRange
	value string // of opSet
	delta int64  // of opAdd
	max   uint64 // of opMax
}

func set(key, value string) op                            { return op{kind: opSet, key: key, value: value} }
func setInteger(key string, v uint64) op                  { return set(key, integer(v)) }
func clearKey(key string) op                              { return op{kind: opClear, key: key} }
func clearRange(begin, end string) op                     { return op{kind: opClearRange, key: begin, end: end} }
func add(key string, delta int64) op                      { return op{kind: opAdd, key: key, delta: delta} }
func raise(key string, v uint64) op                       { return op{kind: opMax, key: key, max: v} }
func integer(v uint64) string                             { return string(kv.EncodeInteger(v)) }
func readInteger(value []byte, err error) (uint64, error) { return kv.DecodeInteger(value), err }

// apply passes the write to tx in buffers that it overwrites afterwards: they belong to
// the caller again.
func (o op) apply(tx kv.Tx) {
	key, end, value := []byte(o.key), []byte(o.end), []byte(o.value)
	switch o.kind {
	case opSet:
		tx.Set(key, value)
	case opClear:
		tx.Clear(key)
	case opClearRange:
		tx.ClearRange(key, end)
	case opAdd:
		tx.Add(key, o.delta)
	case opMax:
		tx.Max(key, o.max)
	}
	scribble(key)
	scribble(end)
	scribble(value)
}

// String returns the operation as a failure's history shows it.
func (o op) String() string {
	switch o.kind {
	case opSet:
		return fmt.Sprintf("Set(%s, %s)", show(o.key), show(o.value))
	case opClear:
		return fmt.Sprintf("Clear(%s)", show(o.key))
	case opClearRange:
		return fmt.Sprintf("ClearRange(%s, %s)", show(o.key), show(o.end))
	case opAdd:
		return fmt.Sprintf("Add(%s, %d)", show(o.key), o.delta)
	case opMax:
		return fmt.Sprintf("Max(%s, %d)", show(o.key), o.max)
	}
	return "unknown operation"
}

// scribble overwrites b, to expose later uses of it.
func scribble(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

// show quotes a key or value, long ones shortened.
func show[S string | []byte](s S) string {
	if len(s) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", strconv.QuoteToASCII(string(s[:20])), len(s))
	}
	return strconv.QuoteToASCII(string(s))
}

// randomKey returns a key of few letters, so that keys meet.
func randomKey(rng *rand.Rand) string {
	const letters = "\x00am\xff"
	key := []byte{"br"[rng.IntN(2)]}
	for range rng.IntN(3) {
		key = append(key, letters[rng.IntN(len(letters))])
	}
	return string(key)
}

// randomValue returns a short value, often an integer.
func randomValue(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return integer(rng.Uint64())
	case 1:
		return integer(uint64(rng.IntN(10)))
	default:
		value := make([]byte, rng.IntN(12))
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		return string(value)
	}
}

// randomOp returns a write, keys chosen by key.
func randomOp(rng *rand.Rand, key func(*rand.Rand) string) op {
	switch opKind(rng.IntN(int(opKinds))) {
	case opClear:
		return clearKey(key(rng))
	case opClearRange:
		begin, end := key(rng), key(rng)
		if begin > end {
			begin, end = end, begin
		}
		return clearRange(begin, end)
	case opAdd:
		return add(key(rng), rng.Int64N(2000)-1000)
	case opMax:
		return raise(key(rng), rng.Uint64N(2000))
	default:
		return set(key(rng), randomValue(rng))
	}
}
