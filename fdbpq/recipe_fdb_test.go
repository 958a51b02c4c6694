//go:build fdb

package fdbpq_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/apple/foundationdb/bindings/go/src/fdb/subspace"
	appletuple "github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

// recipeQueue is a program that follows FoundationDB's documented recipe for
// priority queues, on the rows of one of our queues. It knows nothing of ours:
// a database, a subspace, and apple's tuples.
type recipeQueue struct {
	*testing.T
	db   apple.Database
	root subspace.Subspace // of the store
	pq   subspace.Subspace // of the queue's items
}

// besideRecipe returns a store and the recipe's view of its queue "q", which
// exists and is empty.
func besideRecipe(t *testing.T) (*fdbpq.Store, *recipeQueue) {
	t.Helper()
	cluster, prefix := fdbtest.Shared(t), fdbtest.Prefix()
	db, err := fdb.Open(cluster.File, fdb.Options{Prefix: prefix, OpenTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := apple.OpenDatabase(cluster.File) // the one that the store has, which closes it
	if err != nil {
		t.Fatal(err)
	}
	pushOurs(t, store, 0, "makes the queue")
	popOurs(t, store, fdbpq.Min, 1)
	root := subspace.FromBytes(prefix)
	return store, &recipeQueue{t, theirs, root, root.Sub("i", "q", 1)}
}

func pushOurs(t *testing.T, store *fdbpq.Store, priority int64, payloads ...string) {
	t.Helper()
	session := store.Session()
	defer session.Release()
	for _, payload := range payloads {
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			_, err := store.Queue("q").Push(tx, fdbpq.NewItem{Payload: []byte(payload), Priority: priority, HasPriority: true})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// popOurs pops up to n items and returns their payloads.
func popOurs(t *testing.T, store *fdbpq.Store, end fdbpq.End, n int) (payloads []string) {
	t.Helper()
	session := store.Session()
	defer session.Release()
	var popped fdbpq.Popped
	err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
		popped, err = store.Queue("q").Pop(tx, fdbpq.Selection{End: end, Limit: n})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range popped.Items {
		payloads = append(payloads, string(item.Payload))
	}
	return payloads
}

// push is the recipe's; the value is a tuple of one element as in its Java, or
// as it is, as in its Python.
func (q *recipeQueue) push(priority int64, value []byte) {
	q.Helper()
	_, err := q.db.Transact(func(tr apple.Transaction) (any, error) {
		level := q.pq.Sub(priority)
		last, err := tr.Snapshot().GetRange(level, apple.RangeOptions{Limit: 1, Reverse: true}).GetSliceWithError()
		if err != nil {
			return nil, err
		}
		count := int64(0)
		if len(last) > 0 {
			key, err := level.Unpack(last[0].Key)
			if err != nil {
				return nil, err
			}
			count = key[0].(int64) + 1
		}
		random := make([]byte, 20)
		rand.Read(random)
		tr.Set(level.Pack(appletuple.Tuple{count, random}), value)
		return nil, nil
	})
	if err != nil {
		q.Fatal(err)
	}
}

// pop is the recipe's, with the first element of the value as its Java returns
// it. An empty queue gives nil.
func (q *recipeQueue) pop(last bool) any {
	q.Helper()
	value, err := q.tryPop(last)
	if err != nil {
		q.Fatal(err)
	}
	return value
}

func (q *recipeQueue) tryPop(last bool) (any, error) {
	return q.db.Transact(func(tr apple.Transaction) (any, error) {
		rows, err := tr.GetRange(q.pq, apple.RangeOptions{Limit: 1, Reverse: last}).GetSliceWithError()
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		tr.Clear(rows[0].Key)
		value, err := appletuple.Unpack(rows[0].Value)
		if err != nil {
			return nil, err
		}
		return value[0], nil
	})
}

// Items that programs push by the recipe are popped from either end, in the order of
// priorities.
func TestRecipePushesAreTaken(t *testing.T) {
	store, theirs := besideRecipe(t)
	push := func() {
		theirs.push(5, []byte("bare, as in Python"))
		theirs.push(-1, appletuple.Tuple{"text, as in Java"}.Pack())
		theirs.push(7, appletuple.Tuple{[]byte("bytes")}.Pack())
		theirs.push(5, nil)
		theirs.push(math.MinInt64, []byte("first"))
		theirs.push(math.MaxInt64, []byte("last"))
		pushOurs(t, store, 6, "ours")
	}
	push()
	want := []string{"first", "text, as in Java", "bare, as in Python", "", "ours", "bytes", "last"}
	if got := popOurs(t, store, fdbpq.Min, 10); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("from the lower end: %q, want %q", got, want)
	}
	push()
	for i := range want {
		if got := popOurs(t, store, fdbpq.Max, 1); len(got) != 1 || got[0] != want[len(want)-1-i] {
			t.Errorf("from the upper end: %q, want %q", got, want[len(want)-1-i])
		}
	}
	if problems, err := storecheck.Check(t.Context(), store); err != nil || len(problems) > 0 {
		t.Errorf("check: %v %v", problems, err)
	}
}

// An item that the recipe pushes stands behind all items of the same priority. A later
// push of pqd stands anywhere within that priority.
func TestRecipePushesContinueOurs(t *testing.T) {
	store, theirs := besideRecipe(t)
	pushOurs(t, store, 5, "a", "b")
	theirs.push(5, []byte("c"))
	theirs.push(5, []byte("d"))
	pushOurs(t, store, 6, "e")
	if got := popOurs(t, store, fdbpq.Min, 10); fmt.Sprint(got) != "[a b c d e]" {
		t.Errorf("took %q", got)
	}
}

// Priorities of other types than integers are left alone.
func TestRecipePrioritiesOfOtherTypes(t *testing.T) {
	store, theirs := besideRecipe(t)
	for _, priority := range []appletuple.TupleElement{1.5, "text", nil} {
		_, err := theirs.db.Transact(func(tr apple.Transaction) (any, error) {
			tr.Set(theirs.pq.Pack(appletuple.Tuple{priority, 0, []byte("random")}), []byte("odd"))
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pushOurs(t, store, 5, "ours")
	if got := popOurs(t, store, fdbpq.Min, 10); fmt.Sprint(got) != "[ours]" {
		t.Errorf("took %q", got)
	}
}

// A queue that was never made by a push of ours is unknown, whatever stands in
// its rows.
func TestRecipePushesMakeNoQueue(t *testing.T) {
	store, theirs := besideRecipe(t)
	theirs.pq = theirs.root.Sub("i", "never-pushed-to", 1)
	theirs.push(5, []byte("x"))
	err := store.View(t.Context(), func(r kv.Reader) error {
		popped, err := store.Queue("never-pushed-to").Peek(r, fdbpq.Selection{Limit: 1})
		if err == nil && popped.Reason != fdbpq.ReasonUnknown {
			err = fmt.Errorf("reason %s", popped.Reason)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Programs pop our items by the recipe, from either end and in our order. They do not see
// delayed or leased items.
func TestRecipePopsOurs(t *testing.T) {
	store, theirs := besideRecipe(t)
	pushOurs(t, store, 5, "c", "d")
	pushOurs(t, store, -3, "a", "b")
	pushOurs(t, store, math.MaxInt64, "last")
	session := store.Session()
	defer session.Release()
	err := session.Update(t.Context(), func(tx kv.Tx) error {
		q := store.Queue("q")
		_, err := q.Push(tx, fdbpq.NewItem{Payload: []byte("later"), Priority: -9, HasPriority: true, Delay: time.Hour})
		if err != nil {
			return err
		}
		_, err = q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		last bool
		want string
	}{{false, "b"}, {true, "last"}, {false, "c"}, {true, "d"}} {
		if got, ok := theirs.pop(step.last).([]byte); !ok || string(got) != step.want {
			t.Errorf("the recipe popped %q, want %q", got, step.want)
		}
	}
	if got := theirs.pop(false); got != nil {
		t.Errorf("the recipe popped %q of an empty queue", got)
	}
	if got := popOurs(t, store, fdbpq.Min, 10); len(got) > 0 {
		t.Errorf("we took %q, which the recipe has popped", got)
	}
	err = store.View(t.Context(), func(r kv.Reader) error {
		n, err := store.Queue("q").Counts(r)
		if n.Ready != 4 || n.Leased != 1 || n.Delayed != 1 {
			t.Errorf("what the recipe has popped is documented to stay in the counters, which say %+v", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Both pop the same queue at the same time: no item is delivered twice, and none is
// lost.
func TestRecipePopsBesideOurs(t *testing.T) {
	const n = 60
	store, theirs := besideRecipe(t)
	for i := range n {
		if i%2 == 0 {
			pushOurs(t, store, int64(i%3), fmt.Sprint(i))
		} else {
			theirs.push(int64(i%3), appletuple.Tuple{[]byte(fmt.Sprint(i))}.Pack())
		}
	}
	var mu sync.Mutex
	seen := make(map[string]int)
	book := func(payload string) {
		mu.Lock()
		defer mu.Unlock()
		seen[payload]++
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			session := store.Session()
			defer session.Release()
			for {
				var popped fdbpq.Popped
				err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
					popped, err = store.Queue("q").Pop(tx, fdbpq.Selection{Limit: 2})
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if len(popped.Items) == 0 {
					return
				}
				for _, item := range popped.Items {
					book(string(item.Payload))
				}
			}
		})
		wg.Go(func() {
			for {
				value, err := theirs.tryPop(false)
				if err == nil && value == nil {
					return
				}
				payload, ok := value.([]byte)
				if !ok {
					err = errors.Join(err, fmt.Errorf("popped %v", value))
				}
				if err != nil {
					t.Error(err)
					return
				}
				book(string(payload))
			}
		})
	}
	wg.Wait()
	for i := range n {
		if seen[fmt.Sprint(i)] != 1 {
			t.Errorf("item %d was popped %d times", i, seen[fmt.Sprint(i)])
		}
	}
}
