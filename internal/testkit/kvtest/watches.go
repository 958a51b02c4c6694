package kvtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Watches may end early, never late. A watch that always ends at once would
// turn every waiter into a busy loop, so here nothing may end one without cause.
var watchCases = []testCase{
	{name: "WatchFires", run: testWatchFires},
	{name: "WatchPending", run: testWatchPending},
	{name: "WatchDuringTransaction", run: testWatchDuringTransaction},
	{name: "WatchDoesNotConflict", run: testWatchDoesNotConflict, countsRuns: true},
	{name: "WatchOwnWrite", run: testWatchOwnWrite},
	{name: "WatchLaterWrite", run: testWatchLaterWrite},
	{name: "WatchWithoutCommit", run: testWatchWithoutCommit},
	{name: "WatchRerun", run: testWatchRerun},
	{name: "WatchCancel", run: testWatchCancel},
	{name: "WatchManyOnOneKey", run: testWatchManyOnOneKey},
	{name: "WatchClose", run: testWatchClose},
	{name: "WatchPingPong", run: testWatchPingPong},
}

// watch sets a watch on key and returns it with the value it goes by.
func (f *fixture) watch(key string) (w *kv.Watch, value string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		got, err := tx.Get([]byte(key))
		value, w = string(got), tx.Watch([]byte(key))
		return err
	})
	return w, value
}

func testWatchFires(f *fixture) {
	row := setInteger("k", 5)
	tests := []struct {
		before []op
		change []op
	}{
		{nil, []op{set("k", "x")}},
		{nil, []op{set("k", "")}},
		{nil, []op{add("k", 1)}},
		{nil, []op{raise("k", 1)}},
		{[]op{row}, []op{set("k", "x")}},
		{[]op{row}, []op{set("k", "")}},
		{[]op{row}, []op{clearKey("k")}},
		{[]op{row}, []op{clearRange("k", "k\x00")}},
		{[]op{row}, []op{clearRange("", everything)}},
		{[]op{row}, []op{clearRange("a", "z"), set("k", "x")}},
		{[]op{row}, []op{add("k", 1)}},
		{[]op{row}, []op{add("k", -5)}},
		{[]op{row}, []op{raise("k", 6)}},
		{[]op{row}, []op{set("j", "x"), add("l", 1), clearKey("k"), set("kk", "x")}},
	}
	for _, test := range tests {
		f.start(test.before...)
		w, _ := f.watch("k")
		f.do(test.change...)
		f.await(w.Done(), fmt.Sprintf("the watch of a key with %v that met %v", test.before, test.change))
		w.Cancel()
	}
}

// testWatchPending: changes of other keys do not end the watch.
func testWatchPending(f *fixture) {
	f.start(setInteger("k", 5), set("row", "x"))
	w, _ := f.watch("k")
	missing, _ := f.watch("m")
	f.do(set("j", "x"), set("k\x00", "x"), clearRange("a", "k"), clearRange("k\x00", "l"), add("l", 1))
	err := f.db.Update(f.ctx, func(tx kv.Tx) error {
		tx.Set([]byte("k"), []byte("never committed"))
		tx.Set([]byte("m"), []byte("never committed"))
		return errors.New("own")
	})
	if err == nil {
		f.Fatal("Update lost the closure's error")
	}
	f.view(func(r kv.Reader) error { _, err := r.Get([]byte("k")); return err })
	if closed(w.Done()) || closed(missing.Done()) {
		f.Error("a watch ended although nothing touched its key")
	}
	f.do(clearKey("k"), set("m", ""))
	f.await(w.Done(), "a watch after other keys changed")
	f.await(missing.Done(), "a watch after other keys changed")
}

// testWatchDuringTransaction changes the key between the watching transaction's
// read and its commit.
func testWatchDuringTransaction(f *fixture) {
	key := []byte("k")
	kinds := map[string]func(tx kv.Tx) ([]byte, *kv.Watch, error){
		"Get": func(tx kv.Tx) ([]byte, *kv.Watch, error) {
			value, err := tx.Get(key)
			return value, tx.Watch(key), err
		},
		"Watch before Get": func(tx kv.Tx) ([]byte, *kv.Watch, error) {
			w := tx.Watch(key)
			value, err := tx.Get(key)
			return value, w, err
		},
		"Get and a write": func(tx kv.Tx) ([]byte, *kv.Watch, error) {
			tx.Set([]byte("other"), []byte("x"))
			value, err := tx.Get(key)
			return value, tx.Watch(key), err
		},
		"Snapshot": func(tx kv.Tx) ([]byte, *kv.Watch, error) {
			value, err := tx.Snapshot().Get(key)
			return value, tx.Watch(key), err
		},
		"Snapshot and a write": func(tx kv.Tx) ([]byte, *kv.Watch, error) {
			tx.Set([]byte("other"), []byte("x"))
			value, err := tx.Snapshot().Get(key)
			return value, tx.Watch(key), err
		},
	}
	for name, look := range kinds {
		f.start(set("k", "old"))
		var (
			w     *kv.Watch
			value []byte
		)
		f.interleave(
			func(tx kv.Tx) (err error) { value, w, err = look(tx); return err },
			func() error { return f.asideDo(set("k", "new")) },
			func(tx kv.Tx) error { return nil })
		if string(value) == "old" {
			f.await(w.Done(), fmt.Sprintf("%s: the watch of a key that changed between the read and the commit", name))
		} else if string(value) != "new" {
			f.Errorf("%s: read %s", name, show(value))
		}
		w.Cancel()
	}
}

// testWatchDoesNotConflict: a transaction that writes and watches a key does not lose against transactions that
// change the key, and its watch reports them.
func testWatchDoesNotConflict(f *fixture) {
	for _, change := range []op{set("k", "new"), add("k", 1), clearKey("k")} {
		f.once(fmt.Sprintf("Watch(k) and a write, %s meanwhile", change), func() int {
			f.start(setInteger("k", 5))
			var w *kv.Watch
			runs := f.interleave(
				func(tx kv.Tx) error { w = tx.Watch([]byte("k")); return nil },
				func() error { return f.asideDo(change) },
				func(tx kv.Tx) error { tx.Set([]byte("other"), nil); return nil })
			if runs == 1 {
				f.await(w.Done(), fmt.Sprintf("the watch of a key that met %s before the commit", change))
			}
			w.Cancel()
			return runs
		})
	}
}

// testWatchOwnWrite: a watch waits for changes after its own transaction.
func testWatchOwnWrite(f *fixture) {
	for _, write := range []op{set("k", "own"), add("k", 1), clearKey("k")} {
		f.start(setInteger("k", 5))
		var w *kv.Watch
		f.update(func(tx kv.Tx) error {
			write.apply(tx)
			w = tx.Watch([]byte("k"))
			return nil
		})
		f.do(set("other", "x"))
		if closed(w.Done()) {
			f.Errorf("a watch set after %s of the same transaction ended at its commit", write)
		}
		f.do(set("k", "theirs"))
		f.await(w.Done(), fmt.Sprintf("a watch set after %s of the same transaction", write))
	}
}

// testWatchLaterWrite: a watch ends with its own transaction if that has changed the key since.
func testWatchLaterWrite(f *fixture) {
	for _, write := range []op{set("k", "own"), add("k", 1), raise("k", 9), clearKey("k"), clearRange("a", "z")} {
		f.start(setInteger("k", 5))
		var before, after, other *kv.Watch
		f.update(func(tx kv.Tx) error {
			before, other = tx.Watch([]byte("k")), tx.Watch([]byte("zz"))
			write.apply(tx)
			after = tx.Watch([]byte("k"))
			return nil
		})
		f.await(before.Done(), fmt.Sprintf("a watch set before %s of the same transaction", write))
		if closed(after.Done()) || closed(other.Done()) {
			f.Errorf("%s ended a watch set after it, or a watch of another key", write)
		}
		after.Cancel()
		other.Cancel()
	}
}

func testWatchWithoutCommit(f *fixture) {
	f.start(set("k", "old"))
	cancelled, cancel := context.WithCancel(f.ctx)
	defer cancel()
	own := errors.New("own")
	tests := map[string]struct {
		ctx  context.Context
		last func(tx kv.Tx) error
	}{
		"a closure that fails":            {f.ctx, func(tx kv.Tx) error { return own }},
		"a closure that fails, and wrote": {f.ctx, func(tx kv.Tx) error { tx.Set([]byte("k"), nil); return own }},
		"a transaction too large": {f.ctx, func(tx kv.Tx) error {
			tx.Set([]byte("k"), []byte(strings.Repeat("v", kv.MaxValueSize+1)))
			return nil
		}},
		"a transaction that conflicts when its context has ended": {cancelled, func(tx kv.Tx) error {
			if _, err := tx.Get([]byte("n")); err != nil {
				return err
			}
			if err := f.asideDo(add("n", 1)); err != nil {
				return err
			}
			tx.Set([]byte("other"), nil)
			cancel()
			return nil
		}},
	}
	for what, test := range tests {
		var w *kv.Watch
		err := f.db.Update(test.ctx, func(tx kv.Tx) error {
			w = tx.Watch([]byte("k"))
			return test.last(tx)
		})
		if err == nil {
			f.Fatalf("%s committed", what)
		}
		f.await(w.Done(), "the watch of "+what)
		w.Cancel()
	}
}

// testWatchRerun: the watch of a discarded run ends, the watch of the run that commits stays.
func testWatchRerun(f *fixture) {
	f.start()
	var watches []*kv.Watch
	runs := f.interleave(
		func(tx kv.Tx) error {
			watches = append(watches, tx.Watch([]byte("k")))
			return get("n")(tx)
		},
		func() error { return f.asideDo(add("n", 1)) },
		func(tx kv.Tx) error { tx.Set([]byte("other"), nil); return nil })
	if runs < 2 {
		f.Fatal("the transaction committed in spite of a conflict")
	}
	last := watches[runs-1]
	for _, w := range watches[:runs-1] {
		f.await(w.Done(), "the watch of a run that was rerun")
	}
	f.do(set("unrelated", "x"))
	if closed(last.Done()) {
		f.Error("the watch of the run that committed ended with those of other runs")
	}
	f.do(set("k", "x"))
	f.await(last.Done(), "the watch of the run that committed")
}

func testWatchCancel(f *fixture) {
	f.start(set("k", "old"))
	cancelled, _ := f.watch("k")
	other, _ := f.watch("k")
	cancelled.Cancel()
	f.await(cancelled.Done(), "a watch that was cancelled")
	cancelled.Cancel()
	if closed(other.Done()) {
		f.Error("to cancel a watch ended another one of the same key")
	}

	var early *kv.Watch
	f.update(func(tx kv.Tx) error {
		early = tx.Watch([]byte("k"))
		early.Cancel()
		return nil
	})
	f.await(early.Done(), "a watch that was cancelled before the commit")
	early.Cancel()

	atOnce, _ := f.watch("k")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(atOnce.Cancel)
	}
	wg.Go(func() {
		if err := f.db.Update(f.ctx, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("new")); return nil }); err != nil {
			f.Errorf("Update: %v", err)
		}
	})
	wg.Wait()
	f.await(atOnce.Done(), "a watch that was cancelled while it fired")
	f.await(other.Done(), "a watch next to cancelled ones")
	other.Cancel()
	other.Cancel()

	again, _ := f.watch("k")
	f.do(set("k", "newer"))
	f.await(again.Done(), "a watch after cancelled ones")
}

func testWatchManyOnOneKey(f *fixture) {
	f.start(set("k", "old"))
	var watches []*kv.Watch
	for range 10 {
		var batch []*kv.Watch
		f.update(func(tx kv.Tx) error {
			batch = nil
			for range 10 {
				batch = append(batch, tx.Watch([]byte("k")))
			}
			return nil
		})
		watches = append(watches, batch...)
	}
	for i := 0; i < len(watches); i += 7 {
		watches[i].Cancel()
	}
	f.do(set("k", "new"))
	for i, w := range watches {
		f.await(w.Done(), fmt.Sprintf("watch %d of %d on one key", i, len(watches)))
	}
}

func testWatchClose(f *fixture) {
	f.start(set("k", "old"))
	w, _ := f.watch("k")
	missing, _ := f.watch("missing")
	cancelled, _ := f.watch("k")
	cancelled.Cancel()
	if err := f.db.Close(); err != nil {
		f.Fatalf("Close: %v", err)
	}
	for _, w := range []*kv.Watch{w, missing, cancelled} {
		f.await(w.Done(), "a watch of a closed store")
		w.Cancel()
	}
}

// testWatchPingPong lets two parties wake each other by turns. A single wake-up
// that gets lost stops both.
func testWatchPingPong(f *fixture) {
	const turns = 100
	f.start()
	play := func(parity uint64) error {
		for {
			var (
				turn uint64
				w    *kv.Watch
			)
			err := f.db.Update(f.ctx, func(tx kv.Tx) (err error) {
				w = nil
				turn, err = readInteger(tx.Get([]byte("turn")))
				switch {
				case err != nil || turn >= turns:
				case turn%2 == parity:
					tx.Add([]byte("turn"), 1)
				default:
					w = tx.Watch([]byte("turn"))
				}
				return err
			})
			if err != nil || turn >= turns {
				return err
			}
			if w != nil {
				if err := f.wait(w.Done(), fmt.Sprintf("a wake-up in turn %d", turn)); err != nil {
					return err
				}
			}
		}
	}
	other := make(chan error, 1)
	go func() { other <- play(1) }()
	if err := play(0); err != nil {
		f.Error(err)
	}
	if err := <-other; err != nil {
		f.Error(err)
	}
	f.expectRows("turn", integer(turns))
}
