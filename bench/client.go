package main

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
)

// The verbs of a load.
const (
	verbPush  = "push"
	verbPop   = "pop"
	verbLease = "lease+ack" // the acknowledgement is answered, too
	verbLeave = "lease, ack unanswered"
	verbMixed = "push, pop"   // one after the other by each client
	verbNext  = "lease, +NXT" // acknowledges, and leases the next one, in one request
	verbEcho  = "echo"        // of a system that has an echo service on its server
	verbFill  = "fill"        // as fast as the system's bulk form goes
	verbDrain = "drain"       // the same in the other direction
)

// client is one client of a system with its own connection. It does one thing
// at a time; each method returns when the answer is there.
type client interface {
	push(priority int, payload []byte) error
	pop() error
	lease() error  // and acknowledge; the answer to that has come
	leave() error  // lease and acknowledge, without waiting for an answer
	settle() error // returns when the server has taken in everything that leave left behind
	fill(n int, items *payloads) error
	drain(n int) error
	close() error
}

var (
	errEmpty      = errors.New("the queue is empty")
	errNoSuchVerb = errors.New("the system has no such operation")
)

// The items of all loads.
const (
	payloadSize = 100
	priorities  = 10
)

// payloads makes items: each is unique, because a Redis set keeps equal ones
// once, and hard to compress, because bytes on disk are compared.
type payloads struct {
	noise  [8 << 10]byte
	buffer [payloadSize]byte
	source uint64
	count  uint64
}

func newPayloads(source uint64) *payloads {
	p := &payloads{source: source}
	random := rand.New(rand.NewPCG(source, 1))
	for i := 0; i < len(p.noise); i += 8 {
		binary.LittleEndian.PutUint64(p.noise[i:], random.Uint64())
	}
	return p
}

// next returns an item that is overwritten by the one after it.
func (p *payloads) next() []byte {
	p.count++
	binary.LittleEndian.PutUint64(p.buffer[:], p.source)
	binary.LittleEndian.PutUint64(p.buffer[8:], p.count)
	at := p.count * 61 % (uint64(len(p.noise)) - payloadSize)
	copy(p.buffer[16:], p.noise[at:])
	return p.buffer[:]
}

// priority of the item that was returned last.
func (p *payloads) priority() int {
	return int((p.source + p.count) % priorities)
}
