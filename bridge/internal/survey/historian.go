package survey

import (
	"context"
	"log/slog"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// Historian reads once a minute the lengths of the queues that were active in the last hour. It reads them one
// after the other: a minute is enough for all of them, and requests are not delayed.
type Historian struct {
	stats  *request.Statistics
	queues *Surveyor
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
}

// NewHistorian returns a historian that does not look yet.
func NewHistorian(stats *request.Statistics, queues *Surveyor, log *slog.Logger) *Historian {
	return &Historian{stats: stats, queues: queues, log: log}
}

// historyLimit bounds one look.
const historyLimit = 30 * time.Second

// Start looks until Stop.
func (h *Historian) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	go func() {
		defer close(h.done)
		for {
			next := time.NewTimer(request.UntilStep())
			select {
			case <-next.C:
				h.Look(ctx)
			case <-ctx.Done():
				next.Stop()
				return
			}
		}
	}()
}

// Stop ends the looks, and waits for the one under way.
func (h *Historian) Stop() {
	if h.cancel != nil {
		h.cancel()
		<-h.done
	}
}

// Look makes the look of one minute.
func (h *Historian) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	active := h.stats.EndStep()
	found := make(map[string]request.Lengths, len(active))
	err := h.queues.readPart(ctx, active, Looks{}, func(name string, q *queue) {
		found[name] = request.Lengths{Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed}
	})
	if err != nil {
		h.log.Debug("reading the lengths of queues failed", "error", err)
		active = nil // queues that were not found may exist
		for name := range found {
			active = append(active, name)
		}
	}
	h.stats.SetLengths(active, found)
}
