package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Result is what became of an item: the value of its row in SpaceKept.
type Result struct {
	How        string // see Finish of package fdbpq
	Keep       Keep
	Finished   int64 // store time
	IDPriority int64 // priority in the item's id
	Deliveries int64
	Chunks     int64 // rows that hold the body, when it is large
	Size       int64 // bytes of the body
	Dropped    bool  // there was no room for the body
	Reason     string
	Next       string // where the item went on: a queue, or a link
	NextID     string // its id there
	Body       []byte // empty when it is kept in chunks
	Cause      string // of a death: what the item failed of last, where Reason does not say it; of a cancellation: why
	Fence      int64  // of the last lease, or of the pop for good that ended the item as if it were one
}

// resultVersion is the first element of the value of a result.
const resultVersion = 1

// Append appends what ParseResult reads.
func (r *Result) Append(b []byte) []byte {
	dropped, body := int64(0), r.Body
	if r.Dropped {
		dropped = 1
	}
	if r.Chunks > 0 {
		body = nil
	}
	b = tuple.AppendInt(b, resultVersion)
	b = tuple.AppendString(b, r.How)
	for _, n := range [...]int64{int64(r.Keep), r.Finished, r.IDPriority, r.Deliveries, r.Chunks, r.Size, dropped} {
		b = tuple.AppendInt(b, n)
	}
	for _, s := range [...]string{r.Reason, r.Next, r.NextID} {
		b = tuple.AppendString(b, s)
	}
	b = tuple.AppendBytes(b, body)
	if apart := r.Fence != r.Deliveries; apart || r.Cause != "" {
		if b = tuple.AppendString(b, r.Cause); apart {
			b = tuple.AppendInt(b, r.Fence)
		}
	}
	return b
}

// ParseResult reads a result, which refers to b.
func ParseResult(b []byte) (Result, error) {
	in := tuple.Read(b)
	version := in.Int()
	r := Result{How: in.Text()}
	var keep, dropped int64
	in.Ints(&keep, &r.Finished, &r.IDPriority, &r.Deliveries, &r.Chunks, &r.Size, &dropped)
	r.Reason, r.Next, r.NextID = in.Text(), in.Text(), in.Text()
	r.Body = in.Bytes()
	if len(in.Rest()) > 0 {
		r.Cause = in.Text()
	}
	if r.Fence = r.Deliveries; len(in.Rest()) > 0 {
		r.Fence = in.Int()
	}
	r.Keep, r.Dropped = Keep(keep), dropped != 0
	switch {
	case in.Err() != nil:
		return Result{}, fmt.Errorf("damaged result: %w", in.Err())
	case dropped != 0 && dropped != 1:
		return Result{}, fmt.Errorf("damaged result: %d where its body was dropped", dropped)
	case version != resultVersion:
		return Result{}, fmt.Errorf("damaged result: format %d", version)
	case r.Keep.TTL() == 0, r.Size < 0, r.Size > MaxContent, r.Chunks < 0, r.Chunks > MaxChunks, r.Chunks == 0 && r.Size != int64(len(r.Body)):
		return Result{}, fmt.Errorf("damaged result: kept as %d, %d bytes in %d chunks, %d in its row", r.Keep, r.Size, r.Chunks, len(r.Body))
	}
	return r, nil
}

// Timer is when a timer forgets the result.
func (r *Result) Timer() (due int64) {
	span, end := r.Keep.span(), r.Since("").End()
	return (end/span + 1) * span
}

// ResultTimerKey is the key of a timer that forgets results.
func ResultTimerKey(due int64, queue string, k Keep) []byte {
	return IDTimerKey(due, TimerResults, queue, strconv.FormatInt(int64(k), 10))
}

// ParseKeep reads a Keep from the id of such a timer.
func ParseKeep(id string) (Keep, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || Keep(n).TTL() == 0 {
		return 0, fmt.Errorf("damaged timer of results: kept as %q", id)
	}
	return Keep(n), nil
}

// KeptKey is the key of the result of an item with a suffix.
func KeptKey(queue, suffix string) []byte { return keptOf(SpaceKept, queue, suffix) }

// KeptPart is the key of the n-th part of a large result.
func KeptPart(queue, suffix string, n int64) []byte {
	return tuple.AppendInt(keptOf(SpaceKeptPart, queue, suffix), n)
}

// KeptParts is the range of all parts.
func KeptParts(queue, suffix string) (begin, end []byte) {
	return tuple.Range(keptOf(SpaceKeptPart, queue, suffix))
}

func keptOf(space, queue, suffix string) []byte {
	return tuple.AppendBytes(QueueRow(space, queue), []byte(suffix))
}

// KeptSince leads to a result, in the order in which those of its Keep are forgotten: a row in SpaceKeptSince.
type KeptSince struct {
	Keep         Keep
	Finished     int64
	Suffix       string
	Size, Chunks int64 // bytes that the result counts beside its rows, and rows of its body: its value
}

// Since leads to the result of the item with a suffix.
func (r *Result) Since(suffix string) KeptSince {
	return KeptSince{r.Keep, r.Finished, suffix, r.Size + int64(len(r.Cause)), r.Chunks}
}

// End is the store time from which on the result is not kept any more.
func (k KeptSince) End() int64 { return k.Finished + int64(k.Keep.TTL()) }

// Key is the key of the row.
func (k KeptSince) Key(queue string) []byte {
	return tuple.AppendBytes(tuple.AppendInt(KeptAs(queue, k.Keep), k.Finished), []byte(k.Suffix))
}

// Append appends the value of the row.
func (k KeptSince) Append(b []byte) []byte {
	return tuple.AppendInt(tuple.AppendInt(b, k.Size), k.Chunks)
}

// KeptAs is the prefix of the rows of a Keep.
func KeptAs(queue string, k Keep) []byte {
	return tuple.AppendInt(QueueRow(SpaceKeptSince, queue), int64(k))
}

// ParseKeptSince reads what follows the queue in a key, and the value.
func ParseKeptSince(rest, value []byte) (k KeptSince, err error) {
	r := tuple.Read(rest)
	k.Keep, k.Finished, k.Suffix = Keep(r.Int()), r.Int(), string(r.Bytes())
	v := tuple.Read(value)
	v.Ints(&k.Size, &k.Chunks)
	if err := cmp.Or(r.Err(), v.Err()); err != nil {
		return KeptSince{}, fmt.Errorf("damaged order of results: %w", err)
	}
	return k, nil
}

// Keep is for how long a result is kept: one of a few times, so that the results of each are forgotten in the order in which they
// were made.
type Keep int64

// LongestKeep is the time of the last Keep.
const LongestKeep = 168 * time.Hour

// keeps has the time of each Keep from 1 on.
var keeps = [...]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, LongestKeep}

// KeepFor is the shortest Keep of a time at least, 0 if there is none.
func KeepFor(ttl time.Duration) Keep {
	return Keep(1 + slices.IndexFunc(keeps[:], func(d time.Duration) bool { return d >= ttl }))
}

// TTL is the time of a Keep, 0 of any other number.
func (k Keep) TTL() time.Duration {
	if k < 1 || int(k) > len(keeps) {
		return 0
	}
	return keeps[k-1]
}

// span is within which time one timer forgets results: a hundredth of their TTL, but not below ten seconds.
func (k Keep) span() int64 { return int64(max(10*time.Second, k.TTL()/100)) }
