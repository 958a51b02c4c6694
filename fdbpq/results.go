package fdbpq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A push may ask that its queue keeps what becomes of the item. The transaction that ends the item keeps it, and so exactly one
// result belongs to it, however often a settlement is repeated. Results outlive a purge, and end with the queue, or when their
// time is over. What is kept is written blindly: two transactions that end items never conflict because of results.
//
// What results take is bounded by result_bytes, and by the operator's bound of a queue. An item that asks for its result counts from
// its push on, since nothing refuses the result when it ends. Beyond the bound pushes that ask are refused, at their senders, and the
// body of a result is dropped, and not the settlement: work that is done stays done. The counters are read by snapshot, so concurrent
// transactions may exceed the bound by what each of them adds.

// KeptBytes is what a result counts of result_bytes beside its body and the cause of a death or the reason of a cancellation, and an item
// that asks for one: about what its rows take.
const KeptBytes = 320

// MaxResultTTL is the longest time for which a result is kept.
const MaxResultTTL = layout.LongestKeep

// ErrResults: the results of the queue and the items that ask for theirs take result_bytes, so it refuses pushes that ask for one.
var ErrResults = errors.New("no room for results")

func checkResultTTL(ttl time.Duration) error {
	if ttl < 0 || ttl > MaxResultTTL {
		return fmt.Errorf("%w: TTL of a result of %s, allowed are 0s to %s", ErrTime, ttl, MaxResultTTL)
	}
	return nil
}

// asksFor is what an item asks for with a TTL of its result.
func asksFor(ttl time.Duration) layout.Keep {
	if ttl == 0 {
		return 0
	}
	return layout.KeepFor(ttl)
}

// results keeps and forgets what became of items.
type results struct{ *queueRows }

// most is the queue's bound of bytes.
func (rs results) most() int64 { return rs.store.maxResultBytes(&rs.state.config) }

// takes is what the results take, and the items that ask for theirs, with what the Work has not written yet.
func (rs results) takes() (kept, asked int64, err error) {
	if !rs.state.results {
		return 0, 0, nil
	}
	if rs.promised == nil {
		stored, err := storedTally(rs.name, rs.snapshot, rs.state.generation, layout.Promised)
		if err != nil {
			return 0, 0, err
		}
		rs.promised = &stored
	}
	return rs.promised.ResultBytes + rs.tally.ResultBytes, (rs.promised.Asks + rs.tally.Asks) * KeptBytes, nil
}

// full is the reason to refuse a push that asks for a result, nil while there is room for one.
func (rs results) full(asks layout.Keep) (refused, err error) {
	if asks == 0 {
		return nil, nil
	}
	kept, asked, err := rs.takes()
	most := rs.most()
	if err != nil || kept+asked+KeptBytes <= most {
		return nil, err
	}
	bound := fmt.Sprintf("the queue's result_bytes is %d", most)
	if most == rs.store.maxQueueBytes && most != rs.state.config.ResultBytes {
		bound = fmt.Sprintf("no queue here may have results of more than %d bytes", most)
	}
	return fmt.Errorf("%w: %s; its results take %d, its items that ask for theirs %d, and one more takes %d", ErrResults, bound, kept, asked, KeptBytes), nil
}

// hasRoom reports whether there is room for the body of an item that has ended.
func (rs results) hasRoom(body []byte) (bool, error) {
	if len(body) == 0 {
		return true, nil
	}
	if rs.store.room.full() != nil {
		return false, nil
	}
	kept, asked, err := rs.takes()
	switch {
	case err != nil || kept+asked+KeptBytes+int64(len(body)) > rs.most():
		return false, err
	case rs.keeping != nil:
		return rs.keeping(len(body)), nil
	}
	return !rs.store.room.crowded(rs.name), nil
}

// keep keeps what became of an item that has asked for it.
func (rs results) keep(l *layout.Item, how finish) (Kept, error) {
	now, err := rs.now()
	if err != nil {
		return "", err
	}
	fits, err := rs.hasRoom(how.body)
	if err != nil {
		return "", err
	}
	r := layout.Result{
		How: string(how.how), Keep: l.Asks, Finished: now, IDPriority: l.IDPriority, Deliveries: l.Deliveries(),
		Fence: l.Fence, Reason: how.reason, Next: how.next, Dropped: !fits,
	}
	if how.popped {
		r.Fence++
	}
	switch how.how {
	case FinishCancelled:
		if r.Cause, r.Reason = how.reason, ""; rs.store.room.full() != nil {
			r.Cause = ""
		}
	case FinishDead:
		if cause := (DeadLetter{Reason: how.reason}).cause(Attempts(l.Attempts)); cause != how.reason {
			r.Cause = cause
		}
	}
	if how.nextID != (ID{}) {
		r.NextID = how.nextID.String()
	}
	if fits {
		r.Body, r.Size = how.body, int64(len(how.body))
	}
	suffix := l.Place.Suffix
	if isApart(rs.transaction, r.Size) {
		for part := range slices.Chunk(r.Body, layout.ChunkSize) {
			rs.tx.Set(layout.KeptPart(rs.name, suffix, r.Chunks), part)
			r.Chunks++
		}
	}
	rs.valueBuffer = r.Append(rs.valueBuffer[:0])
	rs.tx.Set(layout.KeptKey(rs.name, suffix), rs.valueBuffer)
	since := r.Since(suffix)
	rs.tx.Set(since.Key(rs.name), since.Append(nil))
	rs.tx.Set(layout.ResultTimerKey(r.Timer(), rs.name, r.Keep), nil) // the alarm need not know: a heartbeat finds it within the shortest Keep
	rs.count(since.Size, 1)
	if r.Dropped {
		return KeptDropped, nil
	}
	return KeptWhole, nil
}

// tell ends the watches of [Queue.Finishes]. A process that has a store to itself needs none.
func (rs results) tell() {
	if !rs.store.inside.Exclusive {
		rs.tx.Add(layout.QueueRow(layout.SpaceFinishes, rs.name), 1)
	}
}

// count counts results that have so many bytes each.
func (rs results) count(size, n int64) {
	rs.tally.Results += n
	rs.tally.ResultBytes += n * (KeptBytes + size)
}

// lost says why the item of a lease is not there, of which a settlement would have ended it in some way. Who has no answer to a settlement
// and repeats it takes [LostGone] for success, so a result that is kept and tells of another end is another reason.
func (rs results) lost(lease Lease, how Finish) error {
	if !rs.state.results {
		return &LostError{Reason: LostGone}
	}
	kept, err := rs.of(rs.snapshot, lease.ID())
	switch {
	case err != nil:
		return err
	case kept == nil:
		return &LostError{Reason: LostGone}
	case Finish(kept.How) == FinishCancelled:
		return &LostError{Reason: LostCancelled, Why: kept.Cause}
	case how == "":
		return &LostError{Reason: LostGone}
	case Finish(kept.How) == FinishExpired:
		return &LostError{Reason: LostExpired}
	case Finish(kept.How) != how || kept.Fence > lease.Fence:
		return &LostError{Reason: LostTaken}
	}
	return &LostError{Reason: LostGone}
}

// of reads the result of an item, nil if there is none, or a timer is about to forget it. Its body may lie in parts.
func (rs results) of(r kv.Reader, id ID) (*layout.Result, error) {
	kept, err := rs.read(r, id.place.Suffix)
	if err != nil || kept == nil || kept.IDPriority != id.place.Priority {
		return nil, err
	}
	now, err := rs.now()
	if err != nil || kept.Since(id.place.Suffix).End() <= now {
		return nil, err
	}
	return kept, nil
}

// read reads the result of the item with a suffix, nil if there is none. Its body may lie in parts.
func (rs results) read(r kv.Reader, suffix string) (*layout.Result, error) {
	row, err := r.Get(layout.KeptKey(rs.name, suffix))
	if err != nil || row == nil {
		return nil, err
	}
	kept, err := layout.ParseResult(row)
	return &kept, err
}

// forget clears a result. The transaction depends on the row that led to it.
func (rs results) forget(since layout.KeptSince) {
	if since.Chunks > 0 {
		rs.tx.ClearRange(layout.KeptParts(rs.name, since.Suffix))
	}
	rs.tx.Clear(layout.KeptKey(rs.name, since.Suffix))
	rs.tx.Clear(since.Key(rs.name))
	rs.count(since.Size, -1)
}

// clear clears the result of an item that comes back.
func (rs results) clear(suffix string) error {
	if !rs.state.results {
		return nil
	}
	r, err := rs.read(rs.tx, suffix)
	if err == nil && r != nil {
		rs.forget(r.Since(suffix))
	}
	return err
}

// due forgets results whose time is over, a bounded number at a time.
func (rs results) due(t layout.Timer) error {
	keep, err := layout.ParseKeep(t.ID)
	if err != nil {
		return err
	}
	now, err := rs.now()
	if err != nil {
		return err
	}
	begin, end := tuple.Range(layout.KeptAs(rs.name, keep))
	rows, err := rs.snapshot.Range(begin, end, kv.RangeOptions{Limit: forgetAtOnce})
	if err != nil {
		return err
	}
	for _, row := range rows {
		since, err := layout.ParseKeptSince(row.Key[len(layout.QueueRow(layout.SpaceKeptSince, rs.name)):], row.Value)
		if err != nil {
			return err
		}
		if since.End() > now {
			return nil // its own timer forgets it
		}
		rs.tx.Conflict(row.Key) // an import may clear it at the same time
		rs.forget(since)
	}
	if len(rows) == forgetAtOnce {
		return rs.timers.atOnce(layout.TimerResults, t.ID)
	}
	return nil
}

// Result is what became of an item whose push asked for that.
type Result struct {
	Finish     Finish
	Kept       Kept   // whether Body is what the holder said
	Body       []byte // of AckWith
	Finished   int64  // store time
	Deliveries int64
	Reason     string // why it is dead, or cancelled
	Cause      string // what it failed of last, where Reason does not say it
	Next       string // the queue of the same tenant in which it went on, or the holder that took it to another store
	NextID     string // its id in that queue
}

var (
	// ErrPending: the item has not ended. [PendingError] also says how far it is.
	ErrPending = errors.New("the item has no result yet")

	// ErrUnkept: the item has not ended, and its queue will not keep what becomes of it: its push has not asked for that.
	ErrUnkept = errors.New("the item will leave no result")
)

// PendingError is an ErrPending.
type PendingError struct {
	Progress   string    // what the last holder that said anything has said of how far it is
	ProgressAt time.Time // when it did; zero: not known
}

func (e *PendingError) Error() string        { return ErrPending.Error() }
func (e *PendingError) Is(target error) bool { return target == ErrPending }

// Result returns what became of an item, nil for an unknown id: there never was such an item, or it ended without a result, or longer ago
// than that is kept, or by a purge. An item that has not ended is ErrPending or ErrUnkept.
func (q Queue) Result(r kv.Reader, id ID) (*Result, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	living, err := qtx.locate(r, id)
	switch {
	case err != nil:
		return nil, err
	case living != nil && idOf(living) != id: // it was moved here, and no item had this id
		return nil, nil
	case living != nil && living.Asks == 0:
		return nil, ErrUnkept
	case living != nil:
		return nil, &PendingError{living.Progress, reportedAt(&living.Past)}
	case !qtx.state.results:
		return nil, nil
	}
	return resultOf(qtx.results, r, id)
}

// Finishes returns a watch that fires when the queue keeps a result, or was purged. Created in the transaction that found no result, it
// misses none, except where the options of the store say that it is exclusive: there events tell of results.
func (q Queue) Finishes(tx kv.Tx) *kv.Watch {
	return tx.Watch(layout.QueueRow(layout.SpaceFinishes, q.name))
}

// Finished returns those of some items whose results the queue keeps, although their time may be over.
func (q Queue) Finished(r kv.Reader, ids ...ID) (finished []ID, err error) {
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = layout.KeptKey(q.name, id.place.Suffix)
	}
	rows, err := r.GetAll(keys)
	for i, row := range rows {
		if row != nil {
			finished = append(finished, ids[i])
		}
	}
	return finished, err
}

// resultOf is what became of an item that is not there any more, nil if that is not kept.
func resultOf(rs results, r kv.Reader, id ID) (*Result, error) {
	suffix := id.place.Suffix
	kept, err := rs.of(r, id)
	if err != nil || kept == nil {
		return nil, err
	}
	if kept.Chunks > 0 {
		keys := make([][]byte, kept.Chunks)
		for n := range keys {
			keys[n] = layout.KeptPart(rs.name, suffix, int64(n))
		}
		parts, err := r.GetAll(keys)
		if err != nil {
			return nil, err
		}
		if kept.Body = joined(parts); int64(len(kept.Body)) != kept.Size {
			return nil, fmt.Errorf("damaged result: its %d parts have %d bytes instead of %d", kept.Chunks, len(kept.Body), kept.Size)
		}
	}
	result := &Result{
		Finish: Finish(kept.How), Kept: KeptWhole, Body: kept.Body, Finished: kept.Finished, Deliveries: kept.Deliveries,
		Reason: kept.Reason, Cause: kept.Cause, Next: kept.Next, NextID: kept.NextID,
	}
	if result.Finish == FinishCancelled {
		result.Reason, result.Cause = kept.Cause, ""
	}
	if kept.Dropped {
		result.Kept = KeptDropped
	}
	return result, nil
}
