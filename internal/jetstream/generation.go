package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// endAt is the first entry of a stream that has ended. The stream is empty, and no append names the entry before
// endAt: a log does not get that long.
const endAt = 1 << 50

// endedBytes is the size of a stream that has ended: it reserves no room.
const endedBytes = 1 << 20

// Generation implements cluster.Log.
func (l *Log) Generation(n uint64) cluster.Log { return l.log(n) }

// Newest implements cluster.Log.
func (l *Log) Newest(ctx context.Context) (newest uint64, err error) {
	if err := l.checkServer(); err != nil {
		return 0, err
	}
	// The server that leads all streams does not answer while it ends.
	err = patiently(ctx, answerLimit, func(ctx context.Context) error {
		newest = 0
		all := l.js.StreamNames(ctx, jetstream.WithStreamListSubject(l.options.subject("*")))
		for name := range all.Name() {
			number, ours := strings.CutPrefix(name, streamPrefix(l.options.Name))
			if n, err := strconv.ParseUint(number, 10, 64); ours && err == nil {
				newest = max(newest, n)
			}
		}
		return all.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("list the streams of the store %s: %w", l.options.Name, err)
	}
	return newest, nil
}

// End implements cluster.Log. The purge is an operation of the stream's own log, so each append comes before or
// after it. It moves the number of the last entry to a place that no append names.
func (l *Log) End(ctx context.Context) error {
	if err := l.checkServer(); err != nil {
		return err
	}
	s, err := l.find(ctx)
	if errors.Is(err, cluster.ErrNoLog) {
		if err := l.create(ctx, endedBytes); err != nil {
			return err
		}
		s, err = l.find(ctx)
	}
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	if info.State.FirstSeq < endAt {
		l.size.CompareAndSwap(0, info.Config.MaxBytes) // the next generation may be as large
		if err := s.Purge(ctx, jetstream.WithPurgeSequence(endAt)); err != nil {
			return fmt.Errorf("end stream %s: %w", l.stream, err)
		}
		if info, err = s.Info(ctx); err != nil {
			return fmt.Errorf("end stream %s: %w", l.stream, err)
		}
	}
	if first := info.State.FirstSeq; first < endAt {
		return fmt.Errorf("end stream %s: after the purge it begins with entry %d, expected %d", l.stream, first, uint64(endAt))
	}
	if info.Config.MaxBytes == endedBytes {
		return nil
	}
	// Its reserved room is for the next generation.
	small := info.Config
	small.MaxBytes, small.Description = endedBytes, "the log of the pqd store "+l.options.Name+" until it lost entries. It has ended; keep it, so that no pqd takes up an old one"
	if _, err := l.js.UpdateStream(ctx, small); err != nil {
		return fmt.Errorf("make stream %s small, which has ended: %w", l.stream, err)
	}
	return nil
}
