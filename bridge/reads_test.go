package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A read that ran out of time is no outage; one that the store refused is.
func TestSlowReadIsNoOutage(t *testing.T) {
	t.Parallel()
	b := &Bridge{options: Options{Logger: slog.New(slog.DiscardHandler)}}
	b.keeper.log = b.options.Logger
	b.noticeRead(fmt.Errorf("%w: %w", kv.ErrUnavailable, context.DeadlineExceeded))
	if err := b.keeper.ready(); err != nil {
		t.Errorf("after a slow read: %v", err)
	}
	b.noticeRead(kv.ErrUnavailable)
	if err := b.keeper.ready(); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("after a refused read: %v", err)
	}
}
