package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
)

// faults are what goes wrong between one member and everything else. The zero value is a
// perfect world.
type faults struct {
	mu       sync.Mutex
	rng      *rand.Rand
	off      bool           // the machine has no power: nothing leaves it any more
	blind    bool           // the log does not come through
	blinding bool           // the same as soon as the last answer was lost
	answers  int            // how many answers of appends get lost next
	spoiled  bool           // reads come from a server that has damaged what it has
	leading  bool           // and confirmations, too
	unseen   int            // how many reads come to a server that lags behind what they look for
	chance   float64        // of each fault
	gone     chan struct{}  // not nil: nothing gets through until it is closed
	deaf     bool           // messages do not come through
	listless bool           // the list of generations does not come through
	mute     bool           // what the log says of itself does not come through
	late     sync.WaitGroup // appends that rest somewhere
	halt     func(halt)     // not nil: called where a call of the log may be halted
}

// halt is where a call of the log may be halted.
type halt int

const (
	beforeAppend halt = iota
	behindAppend      // that has landed
	beforeEnd
)

// at halts a call.
func (f *faults) at(where halt) {
	f.mu.Lock()
	halts := f.halt
	f.mu.Unlock()
	if halts != nil {
		halts(where)
	}
}

var errFault = errors.New("the connection broke")

// happens reports whether something with a chance happens.
func (f *faults) happens(weight float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng != nil && f.rng.Float64() < f.chance*weight
}

// delay is how long something takes, at most d.
func (f *faults) delay(d time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng == nil {
		return 0
	}
	return time.Duration(f.rng.Int64N(int64(d)))
}

func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// hold cuts the member off, or pauses it, until the function that it returns is called.
func (f *faults) hold() (release func()) {
	gone := make(chan struct{})
	f.set(func(f *faults) { f.gone = gone })
	return func() {
		f.set(func(f *faults) {
			if f.gone == gone {
				f.gone = nil
			}
		})
		close(gone)
	}
}

// holdLog keeps the log away from the member until the function that it returns is called.
func (f *faults) holdLog() (release func()) {
	f.set(func(f *faults) { f.blind = true })
	return func() { f.set(func(f *faults) { f.blind = false }) }
}

// loses reports whether an answer gets lost.
func (f *faults) loses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers--
	f.blind = f.blind || f.blinding && f.answers == 0
	return f.answers >= 0
}

// pass waits until something gets through.
func (f *faults) pass(ctx context.Context) error {
	f.mu.Lock()
	gone, blind := f.gone, f.blind || f.off
	f.mu.Unlock()
	if blind {
		return errFault
	}
	if gone != nil {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return rest(ctx, f.delay(4*time.Millisecond))
}

func rest(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faultyLog is the log as one member sees it.
type faultyLog struct {
	*clustertest.Log
	*faults
}

// Append lands, or does not, or lands late; and says so, or says nothing, or refuses what
// it need not refuse.
func (l faultyLog) Append(ctx context.Context, after uint64, entry []byte) error {
	if err := l.pass(ctx); err != nil {
		if l.happens(1) {
			l.later(after, entry)
		}
		return err
	}
	switch {
	case l.happens(1): // the request gets lost
		return errFault
	case l.happens(0.5): // it rests somewhere
		l.later(after, entry)
		return errFault
	case l.happens(0.5): // refused because of an entry that never commits
		return cluster.ErrMoved
	}
	l.at(beforeAppend)
	err := l.Log.Append(ctx, after, entry)
	if err == nil {
		l.at(behindAppend)
	}
	if l.loses() || l.happens(1) { // the answer gets lost
		return errFault
	}
	return err
}

// later lets an append land after a while.
func (l faultyLog) later(after uint64, entry []byte) {
	d := l.delay(5 * time.Second)
	l.late.Go(func() {
		if rest(context.Background(), d) == nil {
			_ = l.Log.Append(context.Background(), after, entry) // no caller waits for the result
		}
	})
}

// Read misses the newest entries at times.
func (l faultyLog) Read(ctx context.Context, first uint64, most int) ([][]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	switch {
	case l.happens(0.3):
		return nil, errFault
	case l.happens(0.7):
		return nil, cluster.ErrNoEntry
	}
	entries, err := l.Log.Read(ctx, first, most)
	if spoiled, _ := l.damages(); err == nil && spoiled {
		return spoil(entries), nil
	}
	if err == nil && l.lags() {
		return nil, cluster.ErrNoEntry
	}
	return entries, err
}

// damages reports whether the server that is read is damaged, and whether the leader is.
func (f *faults) damages() (read, confirmed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spoiled, f.leading
}

// spoil flips a bit of each entry.
func spoil(entries [][]byte) (spoiled [][]byte) {
	for _, entry := range entries {
		entry = bytes.Clone(entry)
		entry[len(entry)/2] ^= 4
		spoiled = append(spoiled, entry)
	}
	return spoiled
}

func (l faultyLog) Confirm(ctx context.Context, number uint64) ([]byte, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	if l.happens(0.3) {
		return nil, errFault
	}
	entry, err := l.Log.Confirm(ctx, number)
	if _, leading := l.damages(); err == nil && leading {
		return spoil([][]byte{entry})[0], nil
	}
	return entry, err
}

// lags reports whether the entries of a read are not there yet.
func (f *faults) lags() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unseen--
	return f.unseen >= 0
}

// State is old at times.
func (l faultyLog) State(ctx context.Context) (cluster.LogState, error) {
	if err := l.pass(ctx); err != nil {
		return cluster.LogState{}, err
	}
	state, err := l.Log.State(ctx)
	switch {
	case l.isMute():
		return cluster.LogState{}, errFault
	case l.happens(0.3):
		return cluster.LogState{}, errFault
	case l.happens(0.7):
		state.Last -= min(3, state.Last-state.First)
	}
	return state, err
}

func (f *faults) isMute() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mute
}

func (l faultyLog) End(ctx context.Context) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	if l.happens(1) {
		return errFault
	}
	l.at(beforeEnd)
	err := l.Log.End(ctx)
	if l.happens(1) { // the answer gets lost
		return errFault
	}
	return err
}

func (l faultyLog) Generation(n uint64) cluster.Log { return faultyLog{l.Log.At(n), l.faults} }

func (l faultyLog) Newest(ctx context.Context) (uint64, error) {
	if err := l.pass(ctx); err != nil {
		return 0, err
	}
	if l.happens(1) {
		return 0, errFault
	}
	if l.noList() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return l.Log.Newest(ctx)
}

func (f *faults) noList() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listless
}

func (l faultyLog) Purge(ctx context.Context, first uint64) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Log.Purge(ctx, first)
}

// faultyMembers is the network as one member sees it.
type faultyMembers struct {
	*clustertest.Network
	*faults
}

func (m faultyMembers) cutOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off || m.gone != nil || m.deaf
}

func (m faultyMembers) Listen(name string, hear func([]byte), answer func([]byte) []byte) (func(), error) {
	return m.Network.Listen(name, func(message []byte) {
		if !m.cutOff() && !m.happens(1) {
			hear(message)
		}
	}, answer)
}

func (m faultyMembers) Broadcast(message []byte) error {
	if m.cutOff() || m.happens(1) {
		return nil
	}
	return m.Network.Broadcast(message)
}

func (m faultyMembers) Ask(ctx context.Context, member string, request []byte) ([]byte, error) {
	if err := m.pass(ctx); err != nil {
		return nil, err
	}
	if m.happens(1) {
		return nil, errFault
	}
	return m.Network.Ask(ctx, member, request)
}
