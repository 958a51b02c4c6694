package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// scriptedLog answers calls with what a script says, in this order.
type scriptedLog struct {
	Log
	appends, reads []error
	entry          []byte // that a read without an error returns
}

func (l *scriptedLog) Append(context.Context, uint64, []byte) error {
	err := l.appends[0]
	l.appends = l.appends[1:]
	return err
}

func (l *scriptedLog) Read(context.Context, uint64, int) ([][]byte, error) {
	err := l.reads[0]
	l.reads = l.reads[1:]
	return [][]byte{l.entry}, err
}

func (l *scriptedLog) State(context.Context) (LogState, error) {
	return LogState{Identity: "log", First: 1}, nil
}

// A refusal of the first attempt is the result. A refusal of a later one proves nothing: an
// earlier attempt, whose answer was lost, may be in the log.
func TestRefusedRepeats(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	entry := chain.Record{Kind: chain.Genesis}.Encode()
	for _, refusal := range []error{ErrFull, ErrNoLog} {
		synctest.Test(t, func(t *testing.T) {
			first := &scriptedLog{appends: []error{refusal}}
			if err := put(t.Context(), first, 0, entry, "log"); !errors.Is(err, refusal) {
				t.Errorf("the first attempt is refused with %v: %v", refusal, err)
			}
			repeated := &scriptedLog{appends: []error{lost, refusal}, reads: []error{ErrNoEntry, nil}, entry: entry}
			if err := put(t.Context(), repeated, 0, entry, "log"); err != nil {
				t.Errorf("the second attempt is refused with %v, and the first one is in the log: %v", refusal, err)
			}
			foreign := &scriptedLog{appends: []error{lost, refusal}, reads: []error{ErrNoEntry, nil}, entry: chain.Record{Kind: chain.Epoch}.Encode()}
			if err := put(t.Context(), foreign, 0, entry, "log"); !errors.Is(err, errForeign) {
				t.Errorf("the second attempt is refused with %v, and another entry is in the log: %v", refusal, err)
			}
		})
	}
}

// An append whose answer was lost, to a log that was made again meanwhile: nothing can be found
// out in it any more.
func TestAppendToLogMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &scriptedLog{appends: []error{errors.New("the answer was lost")}, reads: []error{ErrNoEntry}}
		if err := put(t.Context(), log, 0, chain.Record{Kind: chain.Genesis}.Encode(), "an earlier log"); !errors.Is(err, errUnknownResult) {
			t.Errorf("an append to a log that was made again: %v", err)
		}
	})
}
