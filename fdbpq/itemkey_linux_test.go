package fdbpq_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

var flagKeys = flag.Int("pq.keys", 10_000, "keys in BenchmarkKeys, with ten items each")

// BenchmarkKeys compares operations on a queue without keys with those on queues of as
// many items that have keys: without a limit, with one that nobody reaches, and with one
// at which all keys but one stand, whose items come behind all others, with a rate, without
// tokens for all but one, with a pause of all but one, and in turns. Rounds alternate;
// it reports medians of the time, means of the processor time, and ratios to the first
// queue. Nothing is synced.
func BenchmarkKeys(b *testing.B) {
	const each = 256
	queues := []struct {
		name, config string
		keys         int
		block        func(*testing.B, *fdbpq.Store) // all keys but one
		free         string                         // settings of the one that is not
	}{
		{"no keys", `{}`, 0, nil, ""},
		{"keys without a limit", `{}`, *flagKeys, nil, ""},
		{"keys with a limit", `{"key_limit":1000}`, *flagKeys, nil, ""},
		{"all keys but one at their limit", `{"key_limit":1}`, *flagKeys, leaseKeys, ""},
		{"keys with a rate", `{"key_rate":"1000000/1s"}`, *flagKeys, nil, ""},
		{"all keys but one without tokens", `{"key_rate":"1/24h"}`, *flagKeys, leaseKeys, `{"rate":""}`},
		{"all keys but one paused", `{}`, *flagKeys, pauseKeys, ""},
		{"keys in turns", `{"fair":"priority"}`, *flagKeys, nil, ""},
		{"all keys but one at their limit, in turns", `{"fair":"priority","key_limit":1}`, *flagKeys, leaseKeys, ""},
	}
	stores := make([]*fdbpq.Store, len(queues))
	filled := map[int]string{0: keyStore(b, 0), *flagKeys: keyStore(b, *flagKeys)}
	for i, q := range queues {
		stores[i] = copiedStore(b, filled[q.keys])
		update(b, stores[i], func(tx kv.Tx) error {
			_, err := stores[i].Queue("q").Configure(tx, []byte(q.config))
			return err
		})
		for due := true; due; { // keys are looked at in parts
			swept, err := stores[i].Sweep(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			due = swept.Timers > 0
		}
		if q.free != "" {
			update(b, stores[i], func(tx kv.Tx) error {
				_, err := stores[i].Queue("q").SetKey(tx, "free", []byte(q.free))
				return err
			})
		}
		if q.block != nil {
			q.block(b, stores[i])
		}
	}
	operations := []struct {
		name string
		run  func(*fdbpq.Store, string)
	}{
		{"push", func(s *fdbpq.Store, key string) {
			update(b, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Push(tx, fdbpq.NewItem{Payload: make([]byte, 100), Key: key, Priority: 9, HasPriority: true})
				return err
			})
		}},
		{"lease and ack", func(s *fdbpq.Store, _ string) {
			item := depthLease(b, s, 1)[0]
			update(b, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Ack(tx, *item.Lease)
				return err
			})
		}},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times, cpu := make(map[string][]time.Duration), make(map[string]time.Duration)
	for b.Loop() {
		for _, o := range operations {
			for i, q := range queues {
				key := ""
				if q.keys > 0 {
					key = "free"
				}
				start, before := time.Now(), threadTime(b)
				for range each {
					o.run(stores[i], key)
				}
				at := o.name + q.name
				times[at] = append(times[at], time.Since(start)/each)
				cpu[at] += (threadTime(b) - before) / each
			}
		}
	}
	for _, q := range queues {
		line := "| " + q.name + " |"
		for _, o := range operations {
			at, first := o.name+q.name, o.name+queues[0].name
			took, base, n := median(times[at]), median(times[first]), time.Duration(len(times[at]))
			line += fmt.Sprintf(" %s: %.1f µs (%.2f), %.1f µs (%.2f) |", o.name, float64(took)/1e3, float64(took)/float64(base),
				float64(cpu[at]/n)/1e3, float64(cpu[at])/float64(cpu[first]))
		}
		b.Log(line) // ten lines are shown at most
	}
}

// leaseKeys leases an item of each key that fillKeys fills.
func leaseKeys(b *testing.B, s *fdbpq.Store) {
	for left := *flagKeys; left > 0; left -= 500 {
		depthLease(b, s, min(500, left))
	}
}

// pauseKeys pauses all keys that fillKeys fills, and has pops see that.
func pauseKeys(b *testing.B, s *fdbpq.Store) {
	const batch = 500
	for n := 0; n < *flagKeys; n += batch {
		update(b, s, func(tx kv.Tx) error {
			for i := range batch {
				if _, err := s.Queue("q").SetKey(tx, fmt.Sprint("key-", n+i), []byte(`{"paused":true}`)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for popped := (fdbpq.Popped{More: true}); popped.More; {
		update(b, s, func(tx kv.Tx) (err error) {
			popped, err = s.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1})
			return err
		})
	}
}

// keyStore makes a store with a queue that fillKeys fills, and returns its directory.
func keyStore(b *testing.B, keys int) string {
	dir := b.TempDir()
	db, err := local.Open(dir, local.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	store, err := fdbpq.Open(b.Context(), db, fdbpq.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fillKeys(b, store, keys)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// copiedStore opens a copy of a store.
func copiedStore(b *testing.B, from string) *fdbpq.Store {
	dir := filepath.Join(b.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		b.Fatal(err)
	}
	db, err := local.Open(dir, local.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	store, err := fdbpq.Open(b.Context(), db, fdbpq.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

// fillKeys pushes ten items for each of -pq.keys keys, or as many without a key.
func fillKeys(b *testing.B, s *fdbpq.Store, keys int) {
	const batch = 500
	for n := 0; n < 10**flagKeys; n += batch {
		items := make([]fdbpq.NewItem, batch)
		for i := range items {
			items[i] = fdbpq.NewItem{Payload: make([]byte, 100)}
			if keys > 0 {
				items[i].Key = fmt.Sprint("key-", (n+i)%keys)
			}
		}
		update(b, s, func(tx kv.Tx) error {
			_, err := s.Queue("q").Push(tx, items...)
			return err
		})
	}
}
