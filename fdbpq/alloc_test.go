//go:build !race

package fdbpq_test

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// TestAllocations counts what operations on one item allocate, apart from the engine. A
// change that needs fewer lowers the numbers; one that needs more says why.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name, config, key string
		push, lease, ack  int
	}{
		{name: "no key", config: `{}`, push: 14, lease: 27, ack: 7},
		{name: "key", config: `{"key_limit":1000}`, key: "k", push: 29, lease: 79, ack: 19},
	} {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		f := newFixture(t, base)
		f.configure("jobs", c.config)
		item := fdbpq.NewItem{Payload: make([]byte, 100), Key: c.key}
		f.push("jobs", item, item, item)
		leased := f.lease("jobs", fdbpq.Min, 1, time.Hour).Items[0].Lease
		q, tx := f.Queue("jobs"), freeze(t, base)
		for _, op := range []struct {
			name        string
			allocations int
			run         func() error
		}{
			{"push", c.push, func() error { _, err := q.Push(tx, item); return err }},
			{"lease", c.lease, func() error { _, err := q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour); return err }},
			{"ack", c.ack, func() error { _, err := q.Ack(tx, *leased); return err }},
		} {
			n := testing.AllocsPerRun(100, func() {
				if err := op.run(); err != nil {
					t.Fatal(err)
				}
			})
			if int(n) != op.allocations {
				t.Errorf("%s, %s: %v allocations, expected %d", c.name, op.name, n, op.allocations)
			}
		}
	}
}

// frozen is a transaction on rows in memory. It drops what is written, so each run of an
// operation finds the same.
type frozen []kv.Pair

func freeze(t *testing.T, db kv.DB) *frozen {
	t.Helper()
	var rows frozen
	err := db.View(context.Background(), func(r kv.Reader) (err error) {
		rows, err = r.Range(nil, []byte{0xff}, kv.RangeOptions{Limit: 1000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return &rows
}

func (f *frozen) at(key []byte) int {
	return sort.Search(len(*f), func(i int) bool { return bytes.Compare((*f)[i].Key, key) >= 0 })
}

func (f *frozen) Get(key []byte) ([]byte, error) {
	if i := f.at(key); i < len(*f) && bytes.Equal((*f)[i].Key, key) {
		return (*f)[i].Value, nil
	}
	return nil, nil
}

func (f *frozen) GetAll(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i], _ = f.Get(key)
	}
	return values, nil
}

func (f *frozen) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	found := slices.Clone((*f)[f.at(begin):max(f.at(begin), f.at(end))])
	if opts.Reverse {
		slices.Reverse(found)
	}
	return found[:min(len(found), opts.Limit)], nil
}

func (f *frozen) Snapshot() kv.Reader                                      { return f }
func (f *frozen) Prefetch(...[]byte)                                       {}
func (f *frozen) PrefetchRange(begin, end []byte, options kv.RangeOptions) {}
func (f *frozen) Conflict([]byte)                                          {}
func (f *frozen) Set(key, value []byte)                                    {}
func (f *frozen) Clear([]byte)                                             {}
func (f *frozen) ClearRange(begin, end []byte)                             {}
func (f *frozen) Add([]byte, int64)                                        {}
func (f *frozen) Max([]byte, uint64)                                       {}
func (f *frozen) Watch([]byte) *kv.Watch                                   { panic("not needed") }
