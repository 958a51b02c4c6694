//go:build fdb

package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// ledger records the answers that users of a store got.
type ledger struct {
	mu     sync.Mutex
	pushed map[string]bool // payloads, of pushes whose result is known
	taken  map[string]int
	news   chan struct{} // a value for each push that was acknowledged
}

// TestKilledProcesses kills the processes of a double-redundant cluster by turns while
// the sessions of two bridges push and pop: every acknowledged item is popped once, no
// other item is popped, and sessions resolve every unknown result by themselves.
func TestKilledProcesses(t *testing.T) {
	nightly.Only(t, "it kills processes of a cluster; TestSessionResolvesUnknownResults has what follows")
	// On a busy machine a cluster may need longer than usual to recover, and a caller
	// that gives up then does not know the result.
	fdbpq.SetResolveTimeout(t, 2*time.Minute)
	cluster := fdbtest.New(t, 3)
	l := &ledger{pushed: map[string]bool{}, taken: map[string]int{}, news: make(chan struct{}, 1_000_000)}
	pushing, stopPushing := context.WithCancel(t.Context())
	defer stopPushing()
	popping, stopTaking := context.WithCancel(t.Context())
	defer stopTaking()

	var pushers, poppers sync.WaitGroup
	var stores []*fdbpq.Store
	var engines []*fdb.DB
	for bridge := range 2 {
		db, err := fdb.Open(cluster.File, fdb.Options{Prefix: []byte("pq/")})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stores, engines = append(stores, store), append(engines, db)
		for user := range 4 {
			pushers.Go(func() {
				if err := l.push(pushing, store, fmt.Sprintf("%d/%d", bridge, user)); err != nil {
					t.Errorf("push: %v", err)
				}
			})
			poppers.Go(func() {
				if err := l.pop(popping, store); err != nil {
					t.Errorf("pop: %v", err)
				}
			})
		}
	}
	l.progress(t, "the start")
	for _, p := range cluster.Processes {
		p.Kill(t)
		l.progress(t, "the loss of a process")
		p.Start(t)
		cluster.AwaitHealthy(t)
	}
	l.progress(t, "all of it")
	stopPushing()
	pushers.Wait()
	stopTaking()
	poppers.Wait()
	for {
		n, err := l.takeOnce(stores[0])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}

	for payload := range l.pushed {
		if n := l.taken[payload]; n != 1 {
			t.Errorf("item %s was pushed once and taken %d times", payload, n)
		}
	}
	for payload := range l.taken {
		if !l.pushed[payload] {
			t.Errorf("item %s was taken, and its push was not acknowledged", payload)
		}
	}
	problems, err := storecheck.Check(t.Context(), stores[0])
	if err != nil || len(problems) > 0 {
		t.Errorf("check: %v %v", problems, err)
	}
	t.Logf("%d items; results that did not come back: %d and %d", len(l.pushed), engines[0].Metrics().Unknown, engines[1].Metrics().Unknown)
}

// push pushes until ctx ends. The transactions under way then are finished.
func (l *ledger) push(ctx context.Context, store *fdbpq.Store, user string) error {
	session := store.Session()
	defer session.Release()
	for n := 0; ctx.Err() == nil; n++ {
		var payloads []string
		var items []fdbpq.NewItem
		for i := range 3 {
			payload := fmt.Sprintf("%s/%d/%d", user, n, i)
			payloads = append(payloads, payload)
			items = append(items, fdbpq.NewItem{Payload: []byte(payload), Priority: int64(n % 5), HasPriority: true})
		}
		err := patiently(session, func(tx kv.Tx) error {
			_, err := store.Queue("q").Push(tx, items...)
			return err
		})
		if err != nil {
			return err
		}
		l.mu.Lock()
		for _, payload := range payloads {
			l.pushed[payload] = true
		}
		l.mu.Unlock()
		l.news <- struct{}{}
	}
	return nil
}

// pop pops until ctx ends.
func (l *ledger) pop(ctx context.Context, store *fdbpq.Store) error {
	for ctx.Err() == nil {
		if _, err := l.takeOnce(store); err != nil {
			return err
		}
	}
	return nil
}

func (l *ledger) takeOnce(store *fdbpq.Store) (int, error) {
	session := store.Session()
	defer session.Release()
	var popped fdbpq.Popped
	err := patiently(session, func(tx kv.Tx) (err error) {
		popped, err = store.Queue("q").Pop(tx, fdbpq.Selection{End: fdbpq.Min, Limit: 5})
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range popped.Items {
		l.taken[string(item.Payload)]++
	}
	return len(popped.Items), err
}

// patiently runs a transaction again for as long as it certainly has not taken
// effect.
func patiently(session *fdbpq.Session, fn func(kv.Tx) error) error {
	for {
		// Now and then the cluster needs longer than that to recover.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := session.Update(ctx, fn)
		cancel()
		if !errors.Is(err, kv.ErrUnavailable) {
			return err
		}
	}
}

// progress returns when pushes go on.
func (l *ledger) progress(t *testing.T, after string) {
	t.Helper()
	for len(l.news) > 0 {
		<-l.news
	}
	begin, limit := time.Now(), time.After(3*time.Minute)
	for range 100 {
		select {
		case <-l.news:
		case <-limit:
			t.Fatalf("nothing was pushed after %s", after)
		}
	}
	t.Logf("100 pushes after %s took %v", after, time.Since(begin).Round(time.Millisecond))
}
