package layout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// envelopeVersion is the second element of the value of every item that this
// program wrote.
const envelopeVersion = 1

const (
	// MaxContent bounds the bytes of headers and payload of one item, so that they
	// fit into one transaction together with the item's other rows.
	MaxContent = 8<<20 + 64<<10

	// MaxInline bounds the content kept in the item's own row, below
	// kv.MaxValueSize even when every byte is escaped. Larger content has rows of
	// its own, which leasing the item and ending the lease do not touch.
	MaxInline = 32 << 10

	// ChunkSize is what each row of larger content has, but for the last one.
	ChunkSize = 90_000

	// MaxChunks is how many rows the largest content has.
	MaxChunks = (MaxContent + ChunkSize - 1) / ChunkSize
)

// Envelope is the value of an item: a packed tuple that begins with the payload.
// Programs that follow the recipe read the first element, so they can read our
// items. We read theirs, which are one element or raw bytes.
type Envelope struct {
	Payload      []byte // empty when the content is kept in chunks
	Chunks       int64  // rows that hold headers and payload, when they are large
	Size         int64  // bytes of headers and payload
	HeaderSize   int64  // bytes of headers, also when they are in chunks
	Headers      []byte
	PushedAt     int64 // wall clock, Unix nanoseconds; for display only
	Expires      int64 // store time; 0: never
	Tries        int64 // leases that ended as failures, and that of a leased item
	Fence        int64 // number of leases, returned ones included
	IDPriority   int64 // priority in the item's id
	Dead         Death
	MinFence     int64  // of an imported item: lower bound of the next fence
	ExtraAnswers int64  // of a leased item: answers with this lease beyond the first
	Unique       string // no other item of the queue has this value; "": it has none, or none any more
	UntilLeased  bool   // the first lease ends that
	Key          string // whose item it is; "": nobody's
	Since        int64  // of a leased item: store time when the lease began. Of another one: 0, or GivenBack, or TakenAway
	KeyFence     int64  // of the last lease among those of the key; 0: it had none
	Past
	Endings
	TokensBack int64 // of an item that is not leased: which tokens came back when its last lease ended: TokenOfQueue, TokenOfKey, TokensOfCost
	Overhead   int64 // what its queue counts for it in CounterOverhead
	Asks       Keep  // for how long its result is kept, 0: not at all
	Cost       int64 // of each delivery, as its push has said; 0: 1
	Charged    int64 // the cost for which tokens were taken at its last lease, and have not come back
	Foreign    bool  // pushed by another program, which updated no counters

	Later []byte // fields that only later programs know, as their row has them
}

// Death says how an item became a dead letter. See DeadLetter of package fdbpq, which has the same fields.
type Death struct {
	Reason, Origin, OriginID string

	At            time.Time
	Deliveries    int64
	Interruptions int64
}

// GivenBack says that the last lease of an item did not run out: its holder gave the item back,
// or no client received it.
const GivenBack = -1

// TakenAway says that the last lease of an item was revoked: no lease has the fence that it has
// since.
const TakenAway = -2

// The buckets whose tokens came back from a lease.
const (
	TokenOfQueue = 1 << 0
	TokenOfKey   = 1 << 1
	TokensOfCost = 1 << 2 // of both
)

// A row has a field only if it is not zero, behind its tag, in the order of tags. A new field takes the next tag: an even one if a
// program that does not know the field may leave it as it is for as long as the item stays in its queue, an odd one if such a program
// must not touch the item.
const (
	tagHeaders = 1 + iota
	tagChunks
	tagSize       // where the row does not have the content
	tagHeaderSize // as well
	tagExpires
	tagTries
	tagFence
	tagSince
	tagUnique
	tagUntilLeased
	tagKey
	tagKeyFence
	tagHolder
	tagAttempts
	tagInterruptions
	tagReturns
	tagUnreceived
	tagTokensBack
	tagMinFence
	tagExtraAnswers
	tagDeadReason
	tagDeadOrigin
	tagDeadOriginID
	tagDeadAt
	tagDeadDeliveries
	tagDeadInterruptions
	tagOverhead
	tagAsks
	_
	tagProgress
	_
	tagReported
	_
	tagCost
	_
	tagCharged
	tagNewest = tagCharged
)

// fields are those of an envelope as its row has them.
type fields struct {
	Envelope
	headers                       []byte
	size, headerSize, dead, until int64
}

// number is the field of a tag, nil if that has a text, or is not known.
func (f *fields) number(tag int64) *int64 {
	switch tag {
	case tagChunks:
		return &f.Chunks
	case tagSize:
		return &f.size
	case tagHeaderSize:
		return &f.headerSize
	case tagExpires:
		return &f.Expires
	case tagTries:
		return &f.Tries
	case tagFence:
		return &f.Fence
	case tagSince:
		return &f.Since
	case tagUntilLeased:
		return &f.until
	case tagKeyFence:
		return &f.KeyFence
	case tagInterruptions:
		return &f.Interruptions
	case tagReturns:
		return &f.Returns
	case tagUnreceived:
		return &f.Unreceived
	case tagTokensBack:
		return &f.TokensBack
	case tagMinFence:
		return &f.MinFence
	case tagExtraAnswers:
		return &f.ExtraAnswers
	case tagDeadAt:
		return &f.dead
	case tagDeadDeliveries:
		return &f.Dead.Deliveries
	case tagDeadInterruptions:
		return &f.Dead.Interruptions
	case tagOverhead:
		return &f.Overhead
	case tagAsks:
		return (*int64)(&f.Asks)
	case tagReported:
		return &f.Reported
	case tagCost:
		return &f.Cost
	case tagCharged:
		return &f.Charged
	}
	return nil
}

// text is the field of a tag, nil if that has a number, or is not known. Headers are apart, since they are bytes.
func (f *fields) text(tag int64) *string {
	switch tag {
	case tagUnique:
		return &f.Unique
	case tagKey:
		return &f.Key
	case tagHolder:
		return &f.Holder
	case tagAttempts:
		return &f.Attempts
	case tagProgress:
		return &f.Progress
	case tagDeadReason:
		return &f.Dead.Reason
	case tagDeadOrigin:
		return &f.Dead.Origin
	case tagDeadOriginID:
		return &f.Dead.OriginID
	}
	return nil
}

// Append appends what ParseEnvelope reads.
func (e *Envelope) Append(b []byte) []byte {
	f := fields{Envelope: *e, headers: e.Headers}
	payload := e.Payload
	if e.Chunks > 0 {
		payload, f.headers = nil, nil // they are in rows of their own
	}
	if e.Size != int64(len(payload)+len(f.headers)) {
		f.size = e.Size
	}
	if e.HeaderSize != int64(len(f.headers)) {
		f.headerSize = e.HeaderSize
	}
	if !e.Dead.At.IsZero() {
		f.dead = e.Dead.At.UnixNano()
	}
	if e.UntilLeased {
		f.until = 1
	}
	b = tuple.AppendBytes(b, payload)
	for _, n := range [...]int64{envelopeVersion, e.PushedAt, e.IDPriority} {
		b = tuple.AppendInt(b, n)
	}
	if len(f.headers) > 0 {
		b = tuple.AppendBytes(tuple.AppendInt(b, tagHeaders), f.headers)
	}
	for tag := int64(tagHeaders + 1); tag <= tagNewest; tag++ {
		if n := f.number(tag); n != nil {
			if *n != 0 {
				b = tuple.AppendInt(tuple.AppendInt(b, tag), *n)
			}
		} else if text := f.text(tag); text != nil && *text != "" {
			b = tuple.AppendBytes(tuple.AppendInt(b, tag), []byte(*text))
		}
	}
	return append(b, e.Later...)
}

// ParseEnvelope reads the value of the item at p. The envelope refers to b.
func ParseEnvelope(b []byte, p Place) (Envelope, error) {
	payload, rest, err := tuple.ConsumeBytes(b)
	if err != nil || len(rest) == 0 {
		return foreignEnvelope(b, p), nil
	}
	version, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return foreignEnvelope(b, p), nil
	}
	if version != envelopeVersion {
		return Envelope{}, fmt.Errorf("item has format %d: this version reads %d", version, envelopeVersion)
	}
	f := fields{Envelope: Envelope{Payload: payload}}
	r := tuple.Read(rest)
	r.Ints(&f.PushedAt, &f.IDPriority)
	if err = f.read(&r); err == nil {
		err = f.finish()
	}
	switch err.(type) {
	case nil:
		return f.Envelope, nil
	case laterField:
		return Envelope{}, err
	}
	return Envelope{}, fmt.Errorf("damaged item: %w", err)
}

// laterField is the error about an item with a field that only later programs understand.
type laterField int64

func (f laterField) Error() string {
	return fmt.Sprintf("a newer program wrote an item with field %d: this version reads fields up to %d", int64(f), tagNewest)
}

// read reads the fields behind the fixed ones.
func (f *fields) read(r *tuple.Reader) error {
	for last := int64(0); r.More(); {
		from := r.Rest()
		tag, zero := r.Int(), false
		number, text := f.number(tag), f.text(tag)
		switch {
		case r.Err() != nil:
		case tag <= last:
			return fmt.Errorf("field %d behind field %d", tag, last)
		case tag == tagHeaders:
			f.headers = r.Bytes()
			zero = len(f.headers) == 0
		case number != nil:
			*number = r.Int()
			zero = *number == 0
		case text != nil:
			*text = string(r.Bytes())
			zero = *text == ""
		case tag%2 != 0:
			return laterField(tag)
		default:
			if f.Later == nil {
				f.Later = from[:len(from):len(from)]
			}
			r.Skip()
		}
		if zero && r.Err() == nil {
			return fmt.Errorf("field %d is zero", tag)
		}
		last = tag
	}
	return r.Err()
}

// finish derives what the row leaves out, and refuses what no program writes. Damage must not decide how much memory is allocated.
func (f *fields) finish() error {
	e := &f.Envelope
	e.Headers = f.headers
	headers := int64(len(e.Headers))
	content := headers + int64(len(e.Payload))
	switch {
	case f.size != 0 && f.size == content, f.headerSize != 0 && f.headerSize == headers, e.Chunks > 0 && content > 0:
		return fmt.Errorf("%d bytes, %d of them headers, said beside the content", f.size, f.headerSize)
	case f.until != 0 && f.until != 1:
		return fmt.Errorf("%d where its claim ends", f.until)
	case e.Asks != 0 && e.Asks.TTL() == 0:
		return fmt.Errorf("its result is to be kept as %d", e.Asks)
	}
	e.Size, e.HeaderSize = cmp.Or(f.size, content), cmp.Or(f.headerSize, headers)
	if e.HeaderSize < 0 || e.HeaderSize > e.Size || e.Size > MaxContent || e.Chunks < 0 || e.Chunks > MaxChunks {
		return fmt.Errorf("%d bytes, %d of them headers, in %d chunks", e.Size, e.HeaderSize, e.Chunks)
	}
	e.UntilLeased = f.until == 1
	if f.dead != 0 {
		e.Dead.At = time.Unix(0, f.dead)
	}
	return nil
}

// freeOverhead is how many bytes of unique value, key, attempts, progress and death an item has at no cost.
const freeOverhead = 512

// rowsOfKey is how many rows of an item have its key.
const rowsOfKey = 4

// WithOverhead has the envelope say what its texts take in the item's rows, and returns that. What ordinary items have
// costs nothing, so that they need no counter.
func (e *Envelope) WithOverhead() int64 {
	n := 2*len(e.Unique) + rowsOfKey*len(e.Key) + len(e.Attempts) + len(e.Progress) + len(e.Dead.Reason) + len(e.Dead.Origin) + len(e.Dead.OriginID)
	e.Overhead = int64(max(0, n-freeOverhead))
	return e.Overhead
}

// HomeOf returns the place in the id of the item with this envelope at p.
func (e *Envelope) HomeOf(p Place) Place { return Place{Priority: e.IDPriority, Suffix: p.Suffix} }

// Elsewhere is what the item keeps in another queue, besides its content.
func (e *Envelope) Elsewhere() Envelope {
	return Envelope{PushedAt: e.PushedAt, Key: e.Key, Cost: e.Cost, Past: e.Past.kept()}
}

// Answered is what a repeated pop needs of the item, besides its content.
func (e *Envelope) Answered() Envelope {
	kept := *e
	kept.Chunks, kept.Headers, kept.Payload = 0, nil, nil
	kept.Unique, kept.UntilLeased, kept.Past, kept.Overhead, kept.Asks, kept.Charged, kept.Later = "", false, Past{}, 0, 0, 0, nil
	return kept
}

// foreignEnvelope wraps what a program that follows the recipe stored: a tuple
// with one element (Java) or the bare payload (Python). Its push did not update
// the counters.
func foreignEnvelope(b []byte, p Place) Envelope {
	e := Envelope{Payload: b, IDPriority: p.Priority, Foreign: true}
	if payload, rest, err := tuple.ConsumeBytes(b); err == nil && len(rest) == 0 {
		e.Payload = payload
	} else if text, rest, err := tuple.ConsumeString(b); err == nil && len(rest) == 0 {
		e.Payload = []byte(text)
	}
	e.Size = int64(len(e.Payload))
	return e
}

// IsDead reports whether the item is a dead letter. Its deliveries are not limited,
// and Terminate drops it: dead letters do not move on to a further queue. Being dead
// is a property of items: other items of a dead-letter queue are like any.
func (e *Envelope) IsDead() bool { return e.Dead != (Death{}) }

// Costs is the cost of a delivery of the item, by the word of its push.
func (e *Envelope) Costs() int64 { return max(1, e.Cost) }

// Deliveries is how often the item was handed out with a lease.
func (e *Envelope) Deliveries() int64 { return e.Tries + e.Interruptions + e.Returns }

// Endings say how the leases of an item ended, besides those that failed.
type Endings struct {
	Interruptions, Returns int64
	Unreceived             int64 // nobody received it: no delivery
}

// Past is what an item remembers of its leases: who holds it, and how the last ones ended.
type Past struct {
	Holder   string // of a leased item: what its holder calls itself; "": nothing
	Attempts string // see Attempts of package fdbpq
	Progress string // what the last holder that said anything has said of how far it is
	Reported int64  // when it did: wall clock, Unix nanoseconds; for display only
}

// kept is what goes with the item to another queue.
func (p *Past) kept() Past {
	return Past{Attempts: p.Attempts, Progress: p.Progress, Reported: p.Reported}
}

// TxSize is what the past adds to a transaction: zero bytes of attempts are escaped.
func (p *Past) TxSize() int { return len(p.Holder) + 2*len(p.Attempts) + len(p.Progress) }
