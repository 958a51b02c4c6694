package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// past is what an item remembers of its leases: who holds it, and how the last ones ended.
type past struct {
	holder   string // of a leased item: what its holder calls itself; "": nothing
	attempts string // see Attempts of package fdbpq
}

// append packs what there is, and if something follows it, all.
func (p *past) append(b []byte, followed bool) []byte {
	if *p == (past{}) && !followed {
		return b
	}
	if b = tuple.AppendString(b, p.holder); p.attempts != "" || followed {
		b = tuple.AppendBytes(b, []byte(p.attempts))
	}
	return b
}

// consume reads what append packed.
func (p *past) consume(r *tuple.Reader) {
	if r.More() {
		p.holder = r.Text()
	}
	if r.More() {
		p.attempts = string(r.Bytes())
	}
}

// kept is what goes with the item to another queue.
func (p *past) kept() past { return past{attempts: p.attempts} }

// txSize is what the past adds to a transaction: zero bytes of attempts are escaped.
func (p *past) txSize() int { return len(p.holder) + 2*len(p.attempts) }

// envelopeVersion is the second element of the value of every item that this
// package wrote.
const envelopeVersion = 1

// envelope is the value of an item: a packed tuple that begins with the payload.
// Programs that follow the recipe read the first element, so they can read our
// items. We read theirs, which are one element or raw bytes. New elements go to the
// end; readers ignore elements that they do not know.
type envelope struct {
	payload      []byte // empty when the content is kept in chunks
	chunks       int64  // rows that hold headers and payload, when they are large
	size         int64  // bytes of headers and payload
	headerSize   int64  // bytes of headers, also when they are in chunks
	headers      []byte
	pushed       int64 // wall clock, Unix nanoseconds; for display only
	expires      int64 // store time; 0: never
	tries        int64 // leases that ended as failures, and that of a leased item
	fence        int64 // number of leases, returned ones included
	idPriority   int64 // priority in the item's id
	dead         death
	minFence     int64  // of an imported item: lower bound of the next fence
	extraAnswers int64  // of a leased item: answers with this lease beyond the first
	unique       string // no other item of the queue has this value; "": it has none, or none any more
	untilLeased  bool   // the first lease ends that
	key          string // whose item it is; "": nobody's
	since        int64  // of a leased item: store time when the lease began; 0: not known. Of another one: 0, or givenBack, or takenAway
	keyFence     int64  // of the last lease among those of the key; 0: it had none
	past
	endings
	foreign bool // pushed by another program, which updated no counters
}

// death says how an item became a dead letter. See DeadLetter of package fdbpq, which has the same fields.
type death struct {
	Reason, Origin, OriginID string

	At            time.Time
	Deliveries    int64
	Interruptions int64
}

// givenBack says that the last lease of an item did not run out: its holder gave the item back,
// or no client received it.
const givenBack = -1

// takenAway says that the last lease of an item was revoked: no lease has the fence that it has
// since.
const takenAway = -2

func (e *envelope) append(b []byte) []byte {
	payload, headers := e.payload, e.headers
	if e.chunks > 0 {
		payload, headers = nil, nil // they are in rows of their own
	}
	b = tuple.AppendBytes(b, payload)
	b = tuple.AppendInt(b, envelopeVersion)
	b = tuple.AppendInt(b, e.chunks)
	b = tuple.AppendInt(b, e.size)
	b = tuple.AppendInt(b, e.headerSize)
	b = tuple.AppendBytes(b, headers)
	b = tuple.AppendInt(b, e.pushed)
	b = tuple.AppendInt(b, e.expires)
	b = tuple.AppendInt(b, e.tries)
	b = tuple.AppendInt(b, e.fence)
	b = tuple.AppendInt(b, e.idPriority)
	ended := e.endings != (endings{}) || e.dead.Interruptions != 0
	dated := !e.dead.At.IsZero() || e.dead.Deliveries != 0 || e.past != (past{}) || ended
	keyFence := e.keyFence != 0 || dated
	since := e.since != 0 || keyFence
	key := e.key != "" || since
	unique := e.unique != "" || key
	rare := unique || e.minFence != 0 || e.extraAnswers != 0
	if rare || e.dead != (death{}) {
		b = tuple.AppendString(b, e.dead.Reason)
		b = tuple.AppendString(b, e.dead.Origin)
		b = tuple.AppendString(b, e.dead.OriginID)
	}
	if rare {
		b = tuple.AppendInt(tuple.AppendInt(b, e.minFence), e.extraAnswers)
	}
	if unique {
		until := int64(0)
		if e.untilLeased {
			until = 1
		}
		b = tuple.AppendInt(tuple.AppendBytes(b, []byte(e.unique)), until)
	}
	if key {
		b = tuple.AppendBytes(b, []byte(e.key))
	}
	if since {
		b = tuple.AppendInt(b, e.since)
	}
	if keyFence {
		b = tuple.AppendInt(b, e.keyFence)
	}
	if dated {
		at := int64(0)
		if !e.dead.At.IsZero() {
			at = e.dead.At.UnixNano()
		}
		b = tuple.AppendInt(tuple.AppendInt(b, at), e.dead.Deliveries)
	}
	b = e.past.append(b, ended)
	if ended {
		for _, n := range [...]int64{e.interruptions, e.returns, e.unreceived, e.dead.Interruptions} {
			b = tuple.AppendInt(b, n)
		}
	}
	return b
}

// parseEnvelope reads the value of the item at p. The envelope refers to b.
func parseEnvelope(b []byte, p place) (envelope, error) {
	payload, rest, err := tuple.ConsumeBytes(b)
	if err != nil || len(rest) == 0 {
		return foreignEnvelope(b, p), nil
	}
	version, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return foreignEnvelope(b, p), nil
	}
	if version != envelopeVersion {
		return envelope{}, fmt.Errorf("item has format %d: this version reads %d", version, envelopeVersion)
	}
	e := envelope{payload: payload}
	r := tuple.Read(rest)
	r.Ints(&e.chunks, &e.size, &e.headerSize)
	e.headers = r.Bytes()
	r.Ints(&e.pushed, &e.expires, &e.tries, &e.fence, &e.idPriority)
	// Damage must not decide how much memory is allocated.
	if r.Err() == nil && (e.headerSize < 0 || e.headerSize > e.size || e.size > MaxContent || e.chunks < 0 || e.chunks > maxChunks) {
		return envelope{}, fmt.Errorf("damaged item: %d bytes, %d of them headers, in %d chunks", e.size, e.headerSize, e.chunks)
	}
	if r.More() {
		e.dead.Reason, e.dead.Origin, e.dead.OriginID = r.Text(), r.Text(), r.Text()
	}
	if r.More() {
		r.Ints(&e.minFence, &e.extraAnswers)
	}
	if r.More() {
		e.unique, e.untilLeased = string(r.Bytes()), r.Int() == 1
	}
	if r.More() {
		e.key = string(r.Bytes())
	}
	if r.More() {
		e.since = r.Int()
	}
	if r.More() {
		e.keyFence = r.Int()
	}
	if r.More() {
		at := r.Int()
		if e.dead.Deliveries = r.Int(); at != 0 {
			e.dead.At = time.Unix(0, at)
		}
	}
	e.past.consume(&r)
	if r.More() {
		r.Ints(&e.interruptions, &e.returns, &e.unreceived, &e.dead.Interruptions)
	}
	if err := r.Err(); err != nil {
		return envelope{}, fmt.Errorf("damaged item: %w", err)
	}
	return e, nil
}

// homeOf returns the place in the id of the item with this envelope at p.
func (e *envelope) homeOf(p place) place { return place{priority: e.idPriority, tail: p.tail} }

// elsewhere is what the item keeps in another queue, besides its content.
func (e *envelope) elsewhere() envelope {
	return envelope{pushed: e.pushed, key: e.key, past: e.past.kept()}
}

// answered is what a repeated pop needs of the item, besides its content.
func (e *envelope) answered() envelope {
	kept := *e
	kept.chunks, kept.headers, kept.payload = 0, nil, nil
	kept.unique, kept.untilLeased, kept.past = "", false, past{}
	return kept
}

// foreignEnvelope wraps what a program that follows the recipe stored: a tuple
// with one element (Java) or the bare payload (Python). Its push did not update
// the counters.
func foreignEnvelope(b []byte, p place) envelope {
	e := envelope{payload: b, idPriority: p.priority, foreign: true}
	if payload, rest, err := tuple.ConsumeBytes(b); err == nil && len(rest) == 0 {
		e.payload = payload
	} else if text, rest, err := tuple.ConsumeString(b); err == nil && len(rest) == 0 {
		e.payload = []byte(text)
	}
	e.size = int64(len(e.payload))
	return e
}

// endings are what an item keeps of that, besides its tries.
type endings struct {
	interruptions, returns int64
	unreceived             int64 // nobody received it: no delivery
}

const (
	// MaxContent bounds the bytes of headers and payload of one item, so that they
	// fit into one transaction together with the item's other rows.
	MaxContent = 8<<20 + 64<<10

	// maxInline bounds the content kept in the item's own row, below
	// kv.MaxValueSize even when every byte is escaped. Larger content has rows of
	// its own, which leasing the item and ending the lease do not touch.
	maxInline = 32 << 10

	chunkSize = 90_000
	maxChunks = (MaxContent + chunkSize - 1) / chunkSize
)

// isDead reports whether the item is a dead letter. Its deliveries are not limited,
// and Terminate drops it: dead letters do not move on to a further queue. Being dead
// is a property of items: other items of a dead-letter queue are like any.
func (e *envelope) isDead() bool { return e.dead != (death{}) }
