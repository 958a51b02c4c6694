package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A read that runs out of time does not count as an outage of the store; a read that the
// store refuses does.
func TestSlowReadIsNoOutage(t *testing.T) {
	t.Parallel()
	k := NewKeeper(slog.New(slog.DiscardHandler))
	k.noticeRead(fmt.Errorf("%w: %w", kv.ErrUnavailable, context.DeadlineExceeded))
	if err := k.Ready(); err != nil {
		t.Errorf("after a slow read: %v", err)
	}
	k.noticeRead(kv.ErrUnavailable)
	if err := k.Ready(); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("after a refused read: %v", err)
	}
}
