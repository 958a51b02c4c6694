package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// Results of an append whose entry is not in the log.
var (
	// errForeign: another entry has its place. The entry certainly is not in the log and never will be.
	errForeign = errors.New("another member has written to the log")

	// errUnknownResult: it cannot be known any more whether the entry is in the log.
	errUnknownResult = errors.New("it is not known whether the log has it")
)

// retryPause is how long put waits at most before the next attempt.
const retryPause = 200 * time.Millisecond

// put appends an entry behind entry number after, and returns once its result is certain: nil if it is in the log;
// ErrFull, ErrNoLog or errForeign if it never will be; errUnknownResult if that can no longer be found out. Until then it
// repeats the append byte by byte, because only an entry under the number is proof: a refusal may rest on an entry
// that never commits, and a server that lags says "no such entry".
func put(ctx context.Context, log Log, after uint64, entry []byte, identity string) error {
	sent := false       // an earlier attempt may still land
	var short time.Time // since when the log ends before entry number after
	for {
		err := attempt(ctx, func(ctx context.Context) error { return log.Append(ctx, after, entry) })
		switch {
		case err == nil:
			return nil
		case !sent && (errors.Is(err, ErrFull) || errors.Is(err, ErrNoLog)):
			return err
		case errors.Is(err, ErrMoved), errors.Is(err, ErrFull), errors.Is(err, ErrNoLog):
		default:
			sent = true
		}
		switch found, err := readEntry(ctx, log, after+1); {
		case err == nil && bytes.Equal(found, entry):
			return nil
		case err == nil:
			if _, damaged := chain.DecodeRecord(found); errors.Is(damaged, chain.ErrDamaged) {
				return fmt.Errorf("%w: entry %d of the log: %w", errUnknownResult, after+1, damaged)
			}
			return errForeign
		}
		var state LogState
		err = attempt(ctx, func(ctx context.Context) (err error) {
			state, err = log.State(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errUnknownResult, ctx.Err())
		case err == nil && state.Ended:
			return fmt.Errorf("%w: %w", errUnknownResult, errEnded)
		case err == nil && state.Identity != identity:
			return fmt.Errorf("%w: the log was deleted and made again", errUnknownResult)
		case err == nil && state.First > after+1:
			return fmt.Errorf("%w: its place was purged", errUnknownResult)
		}
		if err != nil || state.Last >= after {
			short = time.Time{}
		} else if short.IsZero() {
			short = time.Now()
		} else if time.Since(short) > takeover.SteadyFor {
			return fmt.Errorf("%w: the log ends at entry %d, and had entry %d", errUnknownResult, state.Last, after)
		}
		if pause(ctx, rand.N(retryPause)) != nil {
			return fmt.Errorf("%w: %w", errUnknownResult, ctx.Err())
		}
	}
}
