package testenv

import (
	"errors"
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
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
