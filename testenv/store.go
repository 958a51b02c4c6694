package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
)

// Store returns an empty store on the first engine. Like every store from this
// package it is checked when the test ends.
func Store(t testing.TB) *fdbpq.Store {
	t.Helper()
	engine := Engines()[0]
	return OpenStore(t, opener(t, engine)(), fdbpq.Options{Strict: engine.Exclusive})
}

// OpenStore opens the store in db.
func OpenStore(t testing.TB, db kv.DB, options fdbpq.Options) *fdbpq.Store {
	t.Helper()
	ctx, cancel := background()
	defer cancel()
	store, err := fdbpq.Open(ctx, db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, store) })
	return store
}

// check fails the test when the store's rows contradict each other. A store
// that the test has closed already cannot be looked at.
func check(t testing.TB, store *fdbpq.Store) {
	t.Helper()
	ctx, cancel := background()
	defer cancel()
	problems, err := storecheck.Check(ctx, store)
	if err != nil && !errors.Is(err, kv.ErrClosed) {
		t.Errorf("check the store: %v", err)
	}
	for _, problem := range problems {
		t.Errorf("check the store: %s", problem)
	}
}

// CheckDir checks a store that a process has left behind, if it made one.
func CheckDir(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return
	}
	db, err := openLocal(dir)
	if err != nil {
		t.Errorf("open the store that pqd left: %v", err)
		return
	}
	defer db.Close()
	ctx, cancel := background()
	defer cancel()
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Errorf("open the store that pqd left: %v", err)
		return
	}
	check(t, store)
}

// Bridged is a bridge with its NATS server and store.
type Bridged struct {
	NATS   *Server
	Store  *fdbpq.Store
	Bridge *bridge.Bridge
}

// Bridge starts a bridge on a NATS server and a store of its own. When the test
// ends the bridge drains, which must succeed, before the store is checked.
func Bridge(t testing.TB, options bridge.Options) *Bridged {
	t.Helper()
	return BridgeOn(t, NATS(t), options)
}

// BridgeOn does the same on a NATS server that is there. With the server's Interest the bridge knows which clients listen, as pqd's
// own does. Otherwise it asks the server, and serves a pop for good without an answer when that takes long.
func BridgeOn(t testing.TB, srv *Server, options bridge.Options) *Bridged {
	t.Helper()
	b := &Bridged{Store: Store(t), NATS: srv}
	ctx, cancel := background()
	defer cancel()
	var err error
	nc := b.NATS.Connect(t, bridge.ConnectOptions(options.Logger)...)
	if b.Bridge, err = bridge.Start(ctx, nc, b.Store, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := background()
		defer cancel()
		if err := b.Bridge.Drain(ctx); err != nil {
			t.Errorf("drain the bridge: %v", err)
		}
	})
	return b
}

// Unfairness is the worst difference, in any stretch of served, between two keys' deliveries divided by their
// weights. served has the key of each delivered item in order. The result leaves out the effect of a batch, and is
// a multiple of the allowed difference, 2/w1 + 2/w2. All keys have items that may be delivered throughout.
func Unfairness(served []string, weights map[string]int64, batch int) (worst float64) {
	adds := 0.0
	if batch > 1 {
		adds = float64(batch)
	}
	for a, wa := range weights {
		for b, wb := range weights {
			if a >= b {
				continue
			}
			now, least, most := 0.0, 0.0, 0.0
			for _, key := range served {
				switch key {
				case a:
					now += 1 / float64(wa)
				case b:
					now -= 1 / float64(wb)
				}
				least, most = min(least, now), max(most, now)
			}
			worst = max(worst, (most-least-adds)/(2/float64(wa)+2/float64(wb)))
		}
	}
	return worst
}

// WorstShare is the largest relative error of a key's share, among keys that should get 100 items or more.
func WorstShare(served []string, weights map[string]int64) (off float64) {
	total := int64(0)
	got := make(map[string]float64)
	for _, weight := range weights {
		total += weight
	}
	for _, key := range served {
		got[key]++
	}
	for key, weight := range weights {
		want := float64(len(served)) * float64(weight) / float64(total)
		if want >= 100 {
			off = max(off, max(got[key]-want, want-got[key])/want)
		}
	}
	return off
}

// Judge fails the test over a history that breaks a promise, and writes it out.
func Judge(t testing.TB, operations []history.Operation, bridges history.Bridges) {
	t.Helper()
	findings := history.Judge(operations, bridges)
	if len(findings) == 0 {
		return
	}
	for _, f := range findings[:min(len(findings), 5)] {
		t.Errorf("%s", f)
	}
	t.Errorf("%d findings: %s", len(findings), keep(t, operations, findings[0].Excerpt(operations)))
}

// Search is Judge for a history that is short enough to search for an order.
func Search(t testing.TB, operations []history.Operation) {
	t.Helper()
	holds, err := history.Linearizable(operations, Most)
	switch {
	case err != nil:
		t.Errorf("%v: %s", err, keep(t, operations, nil))
	case !holds:
		t.Errorf("no order of these operations explains the answers: %s", keep(t, operations, operations))
	}
}

// keep writes a history to a file, and draws an excerpt.
func keep(t testing.TB, operations, excerpt []history.Operation) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pqbridge-history-")
	if err != nil {
		t.Fatal(err)
	}
	name, page := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "history.html")
	if err := history.Write(name, operations); err != nil {
		t.Error(err)
	}
	if err := history.Draw(page, excerpt, 10*time.Second); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%s has the history, %s shows it; judge it again with go test ./cmd/pqd -run TestHistory -pq.history=%s", name, page, name)
}
