package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// A batch does what its transactions would do one after the other, on the replica that
// made it and on the replicas that apply its changes. What one transaction makes of a key is
// what the next one adds to, and a range is cleared with the keys that others have set in
// it meanwhile.
func TestTransactionsOfABatch(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	other := mustOpenReplica(t, vfs.NewMem())
	defer other.Close()
	at := 0
	commit := func(b *Batch) {
		t.Helper()
		at++
		changes := append([]byte(nil), b.Changes()...)
		if err := errors.Join(b.Commit(position(at)), other.Apply(changes, position(at))); err != nil {
			t.Fatal(err)
		}
	}
	var running []<-chan error
	begin := func(fn func(kv.Tx) error) {
		t.Helper()
		running = append(running, update(term, t.Context(), fn))
	}
	begin(func(tx kv.Tx) error {
		tx.Set([]byte("cleared"), kv.EncodeInteger(100))
		tx.Set([]byte("range/old"), []byte("x"))
		return nil
	})
	commit(next(t, term))

	// A transaction reads the state before a key is set in the range that it clears.
	var once sync.Once
	read, set := make(chan struct{}), make(chan struct{})
	begin(func(tx kv.Tx) error {
		_, err := tx.Snapshot().Get([]byte("range/new"))
		once.Do(func() { close(read) })
		<-set
		tx.ClearRange([]byte("range/"), []byte("range0"))
		return err
	})
	<-read
	begin(func(tx kv.Tx) error { tx.Set([]byte("range/new"), []byte("x")); return nil })
	commit(next(t, term))
	close(set)
	waiting(t, term, 1, 0)
	for n, fn := range []func(kv.Tx) error{
		func(tx kv.Tx) error { // runs again, since the range is cleared before
			value, err := tx.Get([]byte("range/new"))
			tx.Set([]byte("seen"), value)
			return err
		},
		func(tx kv.Tx) error { tx.Set([]byte("n"), kv.EncodeInteger(5)); return nil },
		func(tx kv.Tx) error { tx.Set([]byte("n"), kv.EncodeInteger(7)); return nil },
		func(tx kv.Tx) error { tx.Add([]byte("n"), 1); return nil },
		func(tx kv.Tx) error { tx.Max([]byte("n"), 3); tx.Add([]byte("n"), 1); return nil },
		func(tx kv.Tx) error { tx.Clear([]byte("cleared")); return nil },
		func(tx kv.Tx) error { tx.Add([]byte("cleared"), 2); return nil },
		func(tx kv.Tx) error { tx.Set([]byte("range/last"), []byte("x")); return nil },
	} {
		begin(fn)
		waiting(t, term, n+2, 0)
	}
	b := next(t, term)
	if b.Transactions() != 8 {
		t.Errorf("%d transactions in the batch, expected all but the one that runs again", b.Transactions())
	}
	commit(b)

	// The last one of these clears what the first one sets, of which it did not know.
	begin(func(tx kv.Tx) error { tx.Set([]byte("range/late"), []byte("x")); return nil })
	waiting(t, term, 2, 0)
	begin(func(tx kv.Tx) error { tx.ClearRange([]byte("range/"), []byte("range0")); return nil })
	waiting(t, term, 3, 0)
	commit(next(t, term))
	for n, done := range running {
		if err := <-done; err != nil {
			t.Errorf("transaction %d: %v", n, err)
		}
	}
	want := fmt.Sprintf("%q %x <nil>", []kv.Pair{
		{Key: []byte("cleared"), Value: kv.EncodeInteger(2)}, {Key: []byte("n"), Value: kv.EncodeInteger(9)}, {Key: []byte("seen"), Value: []byte{}},
	}, position(at))
	if got := contentOf(r); got != want {
		t.Errorf("the replica has %s\nexpected %s", got, want)
	}
	if got := contentOf(other); got != want {
		t.Errorf("the other replica has %s\nexpected %s", got, want)
	}
	if m, err := r.Metrics(); err != nil || m.Commits != 13 {
		t.Errorf("%d commits, %v: expected 13", m.Commits, err)
	}
}

// A batch with more than one transaction keeps to its limit, and what is left comes with
// the next one. A transaction beyond the limit has a batch of its own.
func TestBatchesAreLimited(t *testing.T) {
	t.Parallel()
	_, term := startTerm(t)
	var all []<-chan error
	for n, size := range []int{400, 400, 400, 2000, 400} {
		all = append(all, update(term, t.Context(), func(tx kv.Tx) error {
			tx.Set([]byte{byte(n)}, make([]byte, size))
			return nil
		}))
		waiting(t, term, n+1, 0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Long())
	defer cancel()
	for n, want := range []int{2, 1, 1, 1} {
		b, err := term.Next(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if b.Transactions() != want {
			t.Errorf("batch %d has %d transactions, expected %d", n, b.Transactions(), want)
		}
		if err := b.Commit(position(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Watches end with the transaction of a batch that changes their keys, whichever it is.
func TestWatchesOfABatch(t *testing.T) {
	t.Parallel()
	_, term := startTerm(t)
	var watches [2]*kv.Watch
	key := func(n int) []byte { return []byte{'k', byte(n)} }
	done := update(term, t.Context(), func(tx kv.Tx) error {
		for n := range watches {
			watches[n] = tx.Watch(key(n))
		}
		tx.Set([]byte("other"), nil)
		return nil
	})
	if err := errors.Join(next(t, term).Commit(position(1)), <-done); err != nil {
		t.Fatal(err)
	}
	for n := range watches {
		update(term, t.Context(), func(tx kv.Tx) error { tx.Set(key(n), nil); return nil })
		waiting(t, term, n+1, 0)
	}
	if err := next(t, term).Commit(position(2)); err != nil {
		t.Fatal(err)
	}
	for n, w := range watches {
		select {
		case <-w.Done():
		case <-patience.Late():
			t.Errorf("the watch of key %d goes on", n)
		}
	}
}

// A transaction that lost against one of a batch that is refused runs again.
func TestLoserOfARefusedBatch(t *testing.T) {
	t.Parallel()
	_, term := startTerm(t)
	change := func(tx kv.Tx) error {
		_, err := tx.Get([]byte("k"))
		tx.Set([]byte("k"), nil)
		return err
	}
	winner := update(term, t.Context(), change)
	waiting(t, term, 1, 0)
	loser := update(term, t.Context(), change)
	waiting(t, term, 2, 0)
	next(t, term).Refuse(errors.New("no room"))
	if err := <-winner; !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("the transaction of the batch returned %v, expected ErrUnavailable", err)
	}
	if err := errors.Join(next(t, term).Commit(position(1)), <-loser); err != nil {
		t.Errorf("the one that lost against it: %v", err)
	}
}

// While the disk has no room for tables, a replica takes no commits, and says why.
func TestReplicaOnFullDisk(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	r.db.tables.flushed(syscall.ENOSPC)
	done := update(term, t.Context(), set("k", "1"))
	waiting(t, term, 1, 0)
	b, err := term.gather(1 << 20)
	if err != nil || b.Transactions() != 0 {
		t.Fatalf("a batch of %d transactions, %v", b.Transactions(), err)
	}
	b.drop(nil)
	for what, err := range map[string]error{"a transaction": <-done, "Apply": r.Apply(appendChange(nil, changeSet, []byte("k"), nil), position(1))} {
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	r.db.tables.flushed(nil)
	if err := r.Apply(appendChange(nil, changeSet, []byte("k"), nil), position(1)); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

// A replica that cannot write says so once, and nobody gets an answer that rests on what
// was not written.
func TestBrokenReplica(t *testing.T) {
	t.Parallel()
	var fatal atomic.Int64
	r, err := OpenReplica("replica", Options{FS: vfs.NewMem(), Now: stopped, Fatal: func(error) { fatal.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	term := r.Begin()
	write := update(term, t.Context(), set("k", "1"))
	read := update(term, t.Context(), func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err })
	waiting(t, term, 1, 1)
	b := next(t, term)
	_ = r.db.store.Close() // Pebble panics from now on
	reason := b.Commit(position(1))
	if reason == nil || !strings.Contains(reason.Error(), "writing to the store failed") {
		t.Fatalf("Commit: %v", reason)
	}
	if err := <-write; !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("the transaction: %v, expected ErrUnknown", err)
	}
	if err := <-read; !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("the read: %v, expected ErrUnavailable", err)
	}
	if fatal.Load() != 1 {
		t.Errorf("Fatal was called %d times, expected once", fatal.Load())
	}
	term.End(reason)
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}

// Whatever became of a disk since, a replica that broke once takes nothing any more.
func TestBrokenReplicaStaysBroken(t *testing.T) {
	t.Parallel()
	r, err := OpenReplica("replica", Options{FS: vfs.NewMem(), Now: stopped, Fatal: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	term := r.Begin()
	done := update(term, t.Context(), set("k", "1"))
	waiting(t, term, 1, 0)
	reason := errors.New("the disk is gone")
	r.db.failure.set(reason)
	b, err := term.gather(1 << 20)
	if err != nil || b.Transactions() != 0 {
		t.Fatalf("a batch of %d transactions, %v", b.Transactions(), err)
	}
	b.drop(nil)
	for what, err := range map[string]error{
		"a transaction": <-done, "Apply": r.Apply(nil, position(2)), "Sync": r.Sync(), "Backup": r.Backup("copy"),
	} {
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v, expected %v", what, err, reason)
		}
	}
	term.End(reason)
	if err := errors.Join(term.Close(), r.db.store.Close()); err != nil {
		t.Error(err)
	}
}

// A term that ends while a closure runs commits nothing of it, and answers nothing. The
// first reason of an end is the one that counts.
func TestTermEndsDuringATransaction(t *testing.T) {
	t.Parallel()
	reason := errors.New("another one is active")
	var watch *kv.Watch
	for what, fn := range map[string]func(kv.Tx) error{
		"write": set("k", "1"),
		"read":  func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err },
		"watch": func(tx kv.Tx) error { watch = tx.Watch([]byte("k")); return nil },
	} {
		_, term := startTerm(t)
		err := <-update(term, t.Context(), func(tx kv.Tx) error {
			err := fn(tx)
			term.End(reason)
			term.End(errors.New("a later reason"))
			return err
		})
		if what == "watch" { // which is all that there was to do
			if err != nil {
				t.Error(err)
			}
			select {
			case <-watch.Done():
			case <-patience.Late():
				t.Error("the watch goes on")
			}
			continue
		}
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, reason) {
			t.Errorf("the %s returned %v, expected ErrUnavailable with the reason", what, err)
		}
		if err := <-update(term, t.Context(), fn); !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, reason) {
			t.Errorf("the next %s returned %v, expected ErrUnavailable with the reason", what, err)
		}
	}
}

// A reader that gives up before its batch gets no answer. Closing a term ends watches.
func TestReaderGivesUp(t *testing.T) {
	t.Parallel()
	r := mustOpenReplica(t, vfs.NewMem())
	defer r.Close()
	term := r.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	read := update(term, ctx, func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err })
	waiting(t, term, 0, 1)
	cancel()
	if err := <-read; !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("the read returned %v, expected ErrUnavailable", err)
	}
	var watch *kv.Watch
	if err := <-update(term, t.Context(), func(tx kv.Tx) error { watch = tx.Watch([]byte("k")); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-watch.Done():
	case <-patience.Late():
		t.Error("the watch goes on")
	}
}

// A transaction that has lost twice runs alone: whatever others write to what it reads comes
// behind it, also what was under way when it began.
func TestLoserOfATermWins(t *testing.T) {
	t.Parallel()
	r, term := startTerm(t)
	ctx := t.Context()
	key, entries := []byte("k"), uint64(0)
	began, goOn := make(chan string), make(chan struct{})
	slow := update(term, ctx, func(tx kv.Tx) error {
		read, err := tx.Get(key)
		began <- string(read)
		<-goOn
		tx.Set([]byte("slow"), read)
		return err
	})
	write := func(value string) <-chan error {
		return update(term, ctx, func(tx kv.Tx) error { tx.Set(key, []byte(value)); return nil })
	}
	commit := func(b *Batch) {
		t.Helper()
		entries++
		if err := b.Commit(position(int(entries))); err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range []string{"1", "2"} {
		<-began
		other := write(value)
		commit(next(t, term))
		if err := <-other; err != nil {
			t.Fatal(err)
		}
		if value == "1" {
			goOn <- struct{}{}
		}
	}
	underWay := write("3")
	b := next(t, term)
	goOn <- struct{}{} // it loses for the second time
	for holds := false; !holds; {
		term.mu.Lock()
		holds = term.held
		term.mu.Unlock()
		select {
		case read := <-began:
			t.Fatalf("it began with %q, before the batch under way was decided", read)
		default:
			runtime.Gosched()
		}
	}
	commit(b)
	if err := <-underWay; err != nil {
		t.Fatal(err)
	}
	if read := <-began; read != "3" {
		t.Errorf("it began with %q, expected 3", read)
	}
	late := write("4")
	waiting(t, term, 1, 0)
	if b, err := term.gather(1 << 20); err != nil || b.Transactions() != 0 {
		t.Fatalf("a batch took %d transactions while one runs alone, %v", b.Transactions(), err)
	} else {
		b.drop(nil)
	}
	goOn <- struct{}{}
	waiting(t, term, 2, 0)
	if b = next(t, term); b.Transactions() != 2 {
		t.Fatalf("a batch has %d transactions, expected both", b.Transactions())
	}
	commit(b)
	if err := errors.Join(<-slow, <-late); err != nil {
		t.Fatal(err)
	}
	err := r.View(ctx, func(r kv.Reader) error {
		wrote, err := r.Get([]byte("slow"))
		if string(wrote) != "3" {
			t.Errorf("it wrote %q, expected 3", wrote)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
