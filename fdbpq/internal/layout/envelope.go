package layout

import (
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
// items. We read theirs, which are one element or raw bytes. New elements go to the
// end; readers ignore elements that they do not know.
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
	Since        int64  // of a leased item: store time when the lease began; 0: not known. Of another one: 0, or GivenBack, or TakenAway
	KeyFence     int64  // of the last lease among those of the key; 0: it had none
	Past
	Endings
	TokensBack int64 // of an item that is not leased: whose tokens came back when its last lease ended: TokenOfQueue, TokenOfKey
	Overhead   int64 // what its queue counts for it in CounterOverhead. Earlier versions leave it out, and there it stays counted
	Asks       Keep  // for how long its result is kept, 0: not at all
	Foreign    bool  // pushed by another program, which updated no counters
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
)

// Append appends what ParseEnvelope reads.
func (e *Envelope) Append(b []byte) []byte {
	payload, headers := e.Payload, e.Headers
	if e.Chunks > 0 {
		payload, headers = nil, nil // they are in rows of their own
	}
	b = tuple.AppendBytes(b, payload)
	b = tuple.AppendInt(b, envelopeVersion)
	b = tuple.AppendInt(b, e.Chunks)
	b = tuple.AppendInt(b, e.Size)
	b = tuple.AppendInt(b, e.HeaderSize)
	b = tuple.AppendBytes(b, headers)
	b = tuple.AppendInt(b, e.PushedAt)
	b = tuple.AppendInt(b, e.Expires)
	b = tuple.AppendInt(b, e.Tries)
	b = tuple.AppendInt(b, e.Fence)
	b = tuple.AppendInt(b, e.IDPriority)
	asks := e.Asks != 0
	tokens := e.TokensBack != 0 || e.Overhead != 0 || asks
	ended := e.Endings != (Endings{}) || e.Dead.Interruptions != 0 || tokens
	dated := !e.Dead.At.IsZero() || e.Dead.Deliveries != 0 || e.Past != (Past{}) || ended
	keyFence := e.KeyFence != 0 || dated
	since := e.Since != 0 || keyFence
	key := e.Key != "" || since
	unique := e.Unique != "" || key
	rare := unique || e.MinFence != 0 || e.ExtraAnswers != 0
	if rare || e.Dead != (Death{}) {
		b = tuple.AppendString(b, e.Dead.Reason)
		b = tuple.AppendString(b, e.Dead.Origin)
		b = tuple.AppendString(b, e.Dead.OriginID)
	}
	if rare {
		b = tuple.AppendInt(tuple.AppendInt(b, e.MinFence), e.ExtraAnswers)
	}
	if unique {
		until := int64(0)
		if e.UntilLeased {
			until = 1
		}
		b = tuple.AppendInt(tuple.AppendBytes(b, []byte(e.Unique)), until)
	}
	if key {
		b = tuple.AppendBytes(b, []byte(e.Key))
	}
	if since {
		b = tuple.AppendInt(b, e.Since)
	}
	if keyFence {
		b = tuple.AppendInt(b, e.KeyFence)
	}
	if dated {
		at := int64(0)
		if !e.Dead.At.IsZero() {
			at = e.Dead.At.UnixNano()
		}
		b = tuple.AppendInt(tuple.AppendInt(b, at), e.Dead.Deliveries)
	}
	b = e.Past.append(b, ended)
	if ended {
		for _, n := range [...]int64{e.Interruptions, e.Returns, e.Unreceived, e.Dead.Interruptions} {
			b = tuple.AppendInt(b, n)
		}
	}
	if tokens {
		b = tuple.AppendInt(b, e.TokensBack)
	}
	if e.Overhead != 0 || asks {
		b = tuple.AppendInt(b, e.Overhead)
	}
	if asks {
		b = tuple.AppendInt(b, int64(e.Asks))
	}
	return b
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
	e := Envelope{Payload: payload}
	r := tuple.Read(rest)
	r.Ints(&e.Chunks, &e.Size, &e.HeaderSize)
	e.Headers = r.Bytes()
	r.Ints(&e.PushedAt, &e.Expires, &e.Tries, &e.Fence, &e.IDPriority)
	// Damage must not decide how much memory is allocated.
	if r.Err() == nil && (e.HeaderSize < 0 || e.HeaderSize > e.Size || e.Size > MaxContent || e.Chunks < 0 || e.Chunks > MaxChunks) {
		return Envelope{}, fmt.Errorf("damaged item: %d bytes, %d of them headers, in %d chunks", e.Size, e.HeaderSize, e.Chunks)
	}
	if r.More() {
		e.Dead.Reason, e.Dead.Origin, e.Dead.OriginID = r.Text(), r.Text(), r.Text()
	}
	if r.More() {
		r.Ints(&e.MinFence, &e.ExtraAnswers)
	}
	if r.More() {
		e.Unique = string(r.Bytes())
		until := r.Int()
		if e.UntilLeased = until == 1; r.Err() == nil && until != 0 && until != 1 {
			return Envelope{}, fmt.Errorf("damaged item: %d where its claim ends", until)
		}
	}
	if r.More() {
		e.Key = string(r.Bytes())
	}
	if r.More() {
		e.Since = r.Int()
	}
	if r.More() {
		e.KeyFence = r.Int()
	}
	if r.More() {
		at := r.Int()
		if e.Dead.Deliveries = r.Int(); at != 0 {
			e.Dead.At = time.Unix(0, at)
		}
	}
	e.Past.consume(&r)
	if r.More() {
		r.Ints(&e.Interruptions, &e.Returns, &e.Unreceived, &e.Dead.Interruptions)
	}
	if r.More() {
		e.TokensBack = r.Int()
	}
	if r.More() {
		e.Overhead = r.Int()
	}
	if r.More() {
		if e.Asks = Keep(r.Int()); r.Err() == nil && e.Asks.TTL() == 0 {
			return Envelope{}, fmt.Errorf("damaged item: its result is to be kept as %d", e.Asks)
		}
	}
	if err := r.Err(); err != nil {
		return Envelope{}, fmt.Errorf("damaged item: %w", err)
	}
	return e, nil
}

// HomeOf returns the place in the id of the item with this envelope at p.
func (e *Envelope) HomeOf(p Place) Place { return Place{Priority: e.IDPriority, Suffix: p.Suffix} }

// Elsewhere is what the item keeps in another queue, besides its content.
func (e *Envelope) Elsewhere() Envelope {
	return Envelope{PushedAt: e.PushedAt, Key: e.Key, Past: e.Past.kept()}
}

// Answered is what a repeated pop needs of the item, besides its content.
func (e *Envelope) Answered() Envelope {
	kept := *e
	kept.Chunks, kept.Headers, kept.Payload = 0, nil, nil
	kept.Unique, kept.UntilLeased, kept.Past, kept.Overhead, kept.Asks = "", false, Past{}, 0, 0
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
}

// append packs what there is, and if something follows it, all.
func (p *Past) append(b []byte, followed bool) []byte {
	if *p == (Past{}) && !followed {
		return b
	}
	if b = tuple.AppendString(b, p.Holder); p.Attempts != "" || followed {
		b = tuple.AppendBytes(b, []byte(p.Attempts))
	}
	return b
}

// consume reads what append packed.
func (p *Past) consume(r *tuple.Reader) {
	if r.More() {
		p.Holder = r.Text()
	}
	if r.More() {
		p.Attempts = string(r.Bytes())
	}
}

// kept is what goes with the item to another queue.
func (p *Past) kept() Past { return Past{Attempts: p.Attempts} }

// TxSize is what the past adds to a transaction: zero bytes of attempts are escaped.
func (p *Past) TxSize() int { return len(p.Holder) + 2*len(p.Attempts) }
