package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

func mustOpenReplica(t testing.TB, fs vfs.FS) *Replica {
	t.Helper()
	r, err := OpenReplica("replica", Options{FS: fs, Now: func() time.Time { return time.Time{} }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func position(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// contentOf returns all rows and the position of a replica.
func contentOf(r *Replica) string {
	var all []kv.Pair
	err := r.View(context.Background(), func(r kv.Reader) (err error) {
		all, err = r.Range(nil, bytes.Repeat([]byte{0xff}, kv.MaxKeySize+1), kv.RangeOptions{Limit: 1 << 20})
		return err
	})
	at, atErr := r.Position()
	return fmt.Sprintf("%q %x %v", all, at, errors.Join(err, atErr))
}

// startTerm begins a term of a new replica whose batches the test decides.
func startTerm(t *testing.T) (*Replica, *Term) {
	t.Helper()
	r := mustOpenReplica(t, vfs.NewMem())
	term := r.Begin()
	t.Cleanup(func() {
		term.End(errors.New("the test has ended"))
		if err := errors.Join(term.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, term
}

func next(t *testing.T, term *Term) *Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience.Long())
	defer cancel()
	b, err := term.Next(ctx, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// update runs a transaction aside; its error comes through the channel.
func update(db kv.DB, ctx context.Context, fn func(kv.Tx) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- db.Update(ctx, fn) }()
	return done
}

// waiting waits until so many transactions and reads wait for a batch.
func waiting(t *testing.T, term *Term, transactions, reads int) {
	t.Helper()
	for deadline := patience.Begin(); ; {
		term.mu.Lock()
		n, m := len(term.waiting), len(term.reads)
		term.mu.Unlock()
		if n == transactions && m == reads {
			return
		}
		if deadline.Over() {
			t.Fatalf("%d transactions and %d reads wait, expected %d and %d", n, m, transactions, reads)
		}
		runtime.Gosched()
	}
}

// What a batch has cannot be read before it commits, and a read that began before the
// batch was made is answered with it; a read that began later is not.
func TestReadsWaitForALaterBatch(t *testing.T) {
	t.Parallel()
	_, term := startTerm(t)
	ctx := t.Context()
	first := update(term, ctx, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("1")); return nil })
	b := next(t, term)
	var seen []byte
	read := update(term, ctx, func(tx kv.Tx) (err error) { seen, err = tx.Get([]byte("k")); return err })
	waiting(t, term, 0, 1)
	if err := b.Commit(position(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		t.Fatalf("a read was answered by a batch that was under way when it began: %v", err)
	default:
	}
	if err := next(t, term).Commit(position(2)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil || seen != nil {
		t.Errorf("read %q, %v: expected the state before the batch", seen, err)
	}
}

// A transaction that conflicts with another transaction of its batch, or with a transaction that was under
// way, runs again and counts right.
func TestConflictsWithinABatch(t *testing.T) {
	t.Parallel()
	_, term := startTerm(t)
	count := func(tx kv.Tx) error {
		v, err := tx.Get([]byte("n"))
		tx.Set([]byte("n"), kv.EncodeInteger(kv.DecodeInteger(v)+1))
		return err
	}
	var all []<-chan error
	for i := range 3 {
		all = append(all, update(term, t.Context(), count))
		waiting(t, term, i+1, 0)
	}
	for left := 3; left > 0; left-- {
		b := next(t, term)
		if b.Transactions() != 1 {
			t.Fatalf("%d transactions in a batch, expected one", b.Transactions())
		}
		if err := b.Commit(position(left)); err != nil {
			t.Fatal(err)
		}
		if left > 1 {
			waiting(t, term, left-1, 0)
		}
	}
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	var n uint64
	read := update(term, t.Context(), func(tx kv.Tx) error {
		v, err := tx.Get([]byte("n"))
		n = kv.DecodeInteger(v)
		return err
	})
	if err := next(t, term).Commit(position(9)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil || n != 3 {
		t.Errorf("counted %d, %v: expected 3", n, err)
	}
}

// Refused batches leave nothing behind, lost ones neither: not in counters, and not in
// batches after them.
func TestUndecidedBatches(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	add := func(tx kv.Tx) error { tx.Add([]byte("n"), 1); return nil }
	reason := errors.New("no room")
	for i, want := range []error{nil, kv.ErrUnavailable, kv.ErrUnknown, nil} {
		done := update(term, t.Context(), add)
		read := update(term, t.Context(), func(tx kv.Tx) error { _, err := tx.Get([]byte("n")); return err })
		waiting(t, term, 1, 1)
		b := next(t, term)
		switch want {
		case nil:
			if err := b.Commit(position(i)); err != nil {
				t.Fatal(err)
			}
		case kv.ErrUnavailable:
			b.Refuse(reason)
		default:
			b.MarkUnknown(reason)
		}
		if err := <-done; !errors.Is(err, want) || want != nil && !errors.Is(err, reason) {
			t.Errorf("batch %d: the transaction returned %v, expected %v", i, err, want)
		}
		wantRead := want
		if want != nil {
			wantRead = kv.ErrUnavailable
		}
		if err := <-read; !errors.Is(err, wantRead) {
			t.Errorf("batch %d: the read returned %v, expected %v", i, err, wantRead)
		}
	}
	var n []byte
	if err := r.View(t.Context(), func(r kv.Reader) (err error) { n, err = r.Get([]byte("n")); return err }); err != nil {
		t.Fatal(err)
	}
	if kv.DecodeInteger(n) != 2 {
		t.Errorf("the counter is %d, expected 2", kv.DecodeInteger(n))
	}
}

// A caller who gives up before a batch takes the transaction has certainly done nothing,
// and one who gives up later does not know.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	ctx, cancel := context.WithCancel(t.Context())
	set := func(key string) func(kv.Tx) error {
		return func(tx kv.Tx) error { tx.Set([]byte(key), []byte("1")); return nil }
	}
	sent := update(term, ctx, set("sent"))
	b := next(t, term)
	early := update(term, ctx, set("early"))
	waiting(t, term, 1, 0)
	cancel()
	if err := <-sent; !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("given up behind the batch: %v, expected ErrUnknown", err)
	}
	if err := <-early; !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("given up before the batch: %v, expected ErrUnavailable", err)
	}
	if err := b.Commit(position(1)); err != nil {
		t.Fatal(err)
	}
	if got, want := contentOf(r), fmt.Sprintf("%q %x <nil>", []kv.Pair{{Key: []byte("sent"), Value: []byte("1")}}, position(1)); got != want {
		t.Errorf("the replica has %s, expected %s", got, want)
	}
}

// The end of a term answers what waits, and ends watches, also watches that a transaction
// sets at this moment.
func TestEndOfATerm(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	var w *kv.Watch
	set := update(term, t.Context(), func(tx kv.Tx) error {
		w = tx.Watch([]byte("k"))
		tx.Set([]byte("k"), []byte("1"))
		return nil
	})
	if err := next(t, term).Commit(position(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-set; err != nil {
		t.Fatal(err)
	}
	write := update(term, t.Context(), func(tx kv.Tx) error { tx.Clear([]byte("k")); return nil })
	read := update(term, t.Context(), func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err })
	waiting(t, term, 1, 1)
	reason := errors.New("another one is active")
	term.End(reason)
	for what, done := range map[string]<-chan error{"write": write, "read": read} {
		if err := <-done; !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, reason) {
			t.Errorf("the %s returned %v, expected ErrUnavailable with the reason", what, err)
		}
	}
	select {
	case <-w.Done():
	case <-patience.Late():
		t.Error("the watch goes on")
	}
	if err := <-update(term, t.Context(), func(tx kv.Tx) error { return nil }); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("a transaction after the end returned %v, expected ErrUnavailable", err)
	}
	again := r.Begin()
	late := update(again, t.Context(), func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("2")); return nil })
	if err := next(t, again).Commit(position(2)); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err != nil {
		t.Errorf("a transaction of the next term: %v", err)
	}
	again.End(reason)
}

// A replica after a power loss has the commits up to some moment, and its position is
// that of this moment. What was synced is there.
func TestReplicaAfterPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		disk := vfs.NewCrashableMem()
		r := mustOpenReplica(t, disk)
		synced, last := 0, 100+rng.IntN(100)
		for n := 1; n <= last; n++ {
			changes := appendChange(nil, changeSet, []byte("last"), position(n))
			changes = appendChange(changes, changeSet, fmt.Appendf(nil, "row %04d", n), bytes.Repeat([]byte("v"), rng.IntN(20_000)))
			changes = appendChange(changes, changeClear, fmt.Appendf(nil, "row %04d", n-10))
			if err := r.Apply(changes, position(n)); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(20) == 0 {
				if err := r.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = n
			}
		}
		after := mustOpenReplica(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}))
		at, err := after.Position()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if at != nil {
			n = int(binary.BigEndian.Uint64(at))
		}
		if n < synced {
			t.Errorf("seed %d: position %d after a power loss, %d was synced", seed, n, synced)
		}
		err = after.View(t.Context(), func(r kv.Reader) error {
			rows, err := r.Range([]byte("row"), []byte("rox"), kv.RangeOptions{Limit: 1000})
			if want := min(n, 10); err == nil && len(rows) != want {
				return fmt.Errorf("%d rows, expected %d", len(rows), want)
			}
			if value, err := r.Get([]byte("last")); err != nil || n > 0 && !bytes.Equal(value, position(n)) {
				return fmt.Errorf("last is %x: %w", value, err)
			}
			return err
		})
		if err != nil {
			t.Errorf("seed %d: at position %d: %v", seed, n, err)
		}
		if err := errors.Join(r.Close(), after.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestUnreadableChanges(t *testing.T) {
	t.Parallel()
	r := mustOpenReplica(t, vfs.NewMem())
	good := appendChange(nil, changeSet, []byte("k"), []byte("value"))
	for _, bad := range [][]byte{good[:len(good)-1], good[:3], good[:1], {9, 1, 'k'}, append(bytes.Clone(good), 0)} {
		if err := r.Apply(bad, position(1)); err == nil {
			t.Errorf("Apply(%q) succeeded", bad)
		}
	}
	if got, want := contentOf(r), "[]  <nil>"; got != want {
		t.Errorf("the replica has %s, expected nothing", got)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
