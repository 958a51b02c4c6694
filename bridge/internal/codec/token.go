package codec

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// A token is the last part of the subject that settles a lease. It holds the lease and
// the pop that gave it, authenticated with the store's secret: every bridge on the
// store can settle the lease, and a client can neither forge a token nor use it for
// another queue.

// macSize is the part of the HMAC-SHA256 that is kept. 96 bits cannot be
// guessed at the rate at which a bridge answers.
const macSize = 12

// Flags of a token.
const (
	tokenMax  = 1 << 0 // the pop took from the high end
	tokenBand = 1 << 1 // the pop was restricted to a band
)

// Sealer makes and opens tokens.
type Sealer struct {
	Conn string // the token in the subject before the lease's token
	macs sync.Pool
}

func (s *Sealer) init(secret []byte) {
	var conn [5]byte
	rand.Read(conn[:])
	s.Conn = strings.ToLower(base32.StdEncoding.EncodeToString(conn[:]))
	s.macs.New = func() any { return hmac.New(sha256.New, secret) }
}

// Append appends the token of a lease in letters, digits, '-' and '_'.
func (s *Sealer) Append(b []byte, lease *fdbpq.Lease, pop Terms) []byte {
	var raw [160]byte
	body := raw[:1]
	if pop.End == fdbpq.Max {
		body[0] |= tokenMax
	}
	body = binary.AppendUvarint(body, uint64(pop.Lease))
	if pop.Band != fdbpq.AllPriorities {
		body[0] |= tokenBand
		body = binary.AppendVarint(body, pop.Band.Low)
		body = binary.AppendVarint(body, pop.Band.High)
	}
	body = append(body, lease.Token()...)
	body = s.seal(body, lease.Queue, body)
	return base64.RawURLEncoding.AppendEncode(b, body)
}

// seal appends the authentication of a body for a queue.
func (s *Sealer) seal(b []byte, queue string, body []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	var sum [sha256.Size]byte
	mac.Write(append(append(sum[:0], byte(len(queue))), queue...)) // of 69 bytes at most
	mac.Write(body)
	return append(b, mac.Sum(sum[:0])[:macSize]...)
}

// ErrToken refuses a token that no bridge of the store has made.
var ErrToken = &failure.Failure{Code: 400, Text: "the subject is no lease: expected it as the item's reply subject or PQ-Ack said, on the same store; PQ-Bundle settles many"}

// Open reads a token for a queue: the lease, and the terms of the pop that gave it.
func (s *Sealer) Open(queue, token string) (lease fdbpq.Lease, pop Terms, f *failure.Failure) {
	body, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(body) < macSize+2 || strings.ContainsAny(token, "\r\n") { // which the decoder skips
		return lease, pop, ErrToken
	}
	body, mac := body[:len(body)-macSize], body[len(body)-macSize:]
	var want [macSize]byte
	if !hmac.Equal(s.seal(want[:0], queue, body), mac) {
		return lease, pop, ErrToken
	}
	flags, rest := body[0], body[1:]
	pop = Terms{End: fdbpq.Min, Band: fdbpq.AllPriorities}
	if flags&tokenMax != 0 {
		pop.End = fdbpq.Max
	}
	ns, n := binary.Uvarint(rest)
	if n <= 0 {
		return lease, pop, ErrToken
	}
	pop.Lease, rest = time.Duration(ns), rest[n:]
	if flags&tokenBand != 0 {
		for _, end := range []*int64{&pop.Band.Low, &pop.Band.High} {
			if *end, n = binary.Varint(rest); n <= 0 {
				return lease, pop, ErrToken
			}
			rest = rest[n:]
		}
	}
	if pop.Lease <= 0 || pop.Lease > fdbpq.MaxLease || pop.Band.Low > pop.Band.High {
		return lease, pop, ErrToken
	}
	if lease, err = fdbpq.ParseLease(queue, rest); err != nil {
		return lease, pop, ErrToken
	}
	return lease, pop, nil
}
