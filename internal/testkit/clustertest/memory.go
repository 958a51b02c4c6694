package clustertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Log is a cluster.Log in memory, for any number of members.
type Log struct {
	// MaxBytes bounds the bytes of all entries; 0 means no bound. Entry bounds one of
	// them.
	MaxBytes, Entry int

	// Identity is the identity that State returns; "": an identity of its own.
	Identity string

	generation uint64
	family     *family

	mu      sync.Mutex
	made    int // how often the log was made
	exists  bool
	ended   bool
	first   uint64 // number of the first entry
	entries [][]byte
	bytes   int
}

var _ cluster.Log = (*Log)(nil)

// family is the logs of all generations.
type family struct {
	mu   sync.Mutex
	logs map[uint64]*Log
}

// NewLog returns the first generation of a log, which does not exist yet.
func NewLog() *Log {
	l := &Log{Entry: 1 << 20, generation: 1, family: &family{logs: make(map[uint64]*Log)}}
	l.family.logs[1] = l
	return l
}

// Generation implements cluster.Log.
func (l *Log) Generation(n uint64) cluster.Log { return l.At(n) }

// At is Generation for tests.
func (l *Log) At(n uint64) *Log {
	l.family.mu.Lock()
	defer l.family.mu.Unlock()
	if l.family.logs[n] == nil {
		l.family.logs[n] = &Log{MaxBytes: l.MaxBytes, Entry: l.Entry, generation: n, family: l.family}
	}
	return l.family.logs[n]
}

// Newest implements cluster.Log.
func (l *Log) Newest(ctx context.Context) (newest uint64, err error) {
	l.family.mu.Lock()
	defer l.family.mu.Unlock()
	for n, log := range l.family.logs {
		if log.there() {
			newest = max(newest, n)
		}
	}
	return newest, ctx.Err()
}

func (l *Log) there() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.exists
}

// End implements cluster.Log.
func (l *Log) End(ctx context.Context) error {
	if err := l.Create(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.first, l.entries, l.bytes = true, 1<<50, nil, 0 // no append names an entry before that
	return nil
}

// Remove deletes the log.
func (l *Log) Remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exists = false
}

// Number is the generation of the log.
func (l *Log) Number() uint64 { return l.generation }

// Cut removes the last n entries, or all if there are fewer, like a log that breaks its promise. It returns how
// many.
func (l *Log) Cut(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.entries))
	for _, e := range l.entries[len(l.entries)-n:] {
		l.bytes -= len(e)
	}
	l.entries = l.entries[:len(l.entries)-n]
	return n
}

// Backup remembers the present log, and returns a function that restores it.
func (l *Log) Backup() (restore func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	made, first, entries, size := l.made, l.first, slices.Clone(l.entries), l.bytes
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made, l.exists, l.ended, l.first, l.entries, l.bytes = made, true, false, first, slices.Clone(entries), size
	}
}

// Corrupt flips a bit of an entry.
func (l *Log) Corrupt(number uint64, bit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := bytes.Clone(l.entries[number-l.first])
	entry[bit/8%len(entry)] ^= 1 << (bit % 8)
	l.entries[number-l.first] = entry
}

// Create implements cluster.Log.
func (l *Log) Create(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exists {
		return ctx.Err()
	}
	l.made++
	l.exists, l.ended, l.first, l.entries, l.bytes = true, false, 1, nil, 0
	return ctx.Err()
}

// begin locks the log, unless the call must do nothing.
func (l *Log) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if !l.exists {
		l.mu.Unlock()
		return cluster.ErrNoLog
	}
	return nil
}

// State implements cluster.Log.
func (l *Log) State(ctx context.Context) (cluster.LogState, error) {
	if err := l.begin(ctx); err != nil {
		return cluster.LogState{}, err
	}
	defer l.mu.Unlock()
	return cluster.LogState{
		Identity: cmp.Or(l.Identity, fmt.Sprintf("log %d of generation %d", l.made, l.generation)),
		Ended:    l.ended, First: l.first, Last: l.last(),
		Bytes: uint64(l.bytes), MaxBytes: uint64(l.MaxBytes),
	}, nil
}

func (l *Log) last() uint64 { return l.first + uint64(len(l.entries)) - 1 }

// Append implements cluster.Log.
func (l *Log) Append(ctx context.Context, after uint64, entry []byte) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	switch {
	case len(entry) > l.Entry:
		return fmt.Errorf("an entry has %d bytes, at most %d are allowed", len(entry), l.Entry)
	case after != l.last():
		return cluster.ErrMoved
	case l.MaxBytes > 0 && l.bytes+len(entry) > l.MaxBytes:
		return cluster.ErrFull
	}
	l.entries = append(l.entries, bytes.Clone(entry))
	l.bytes += len(entry)
	return nil
}

// Read implements cluster.Log.
func (l *Log) Read(ctx context.Context, first uint64, most int) ([][]byte, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if first < l.first || first > l.last() {
		return nil, cluster.ErrNoEntry
	}
	var found [][]byte
	for _, e := range l.entries[first-l.first:] {
		if len(found) == most {
			break
		}
		found = append(found, bytes.Clone(e))
	}
	return found, nil
}

// Confirm implements cluster.Log.
func (l *Log) Confirm(ctx context.Context, number uint64) ([]byte, error) {
	entries, err := l.Read(ctx, number, 1)
	if err != nil {
		return nil, err
	}
	return entries[0], nil
}

// Complete implements cluster.Log.
func (l *Log) Complete(ctx context.Context) error { return ctx.Err() }

// Purge implements cluster.Log.
func (l *Log) Purge(ctx context.Context, first uint64) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.mu.Unlock()
	for len(l.entries) > 1 && l.first < first {
		l.bytes -= len(l.entries[0])
		l.entries = l.entries[1:]
		l.first++
	}
	return nil
}

// MaxEntry implements cluster.Log.
func (l *Log) MaxEntry() int { return l.Entry }
