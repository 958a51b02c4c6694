package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// historian looks once a minute how long the queues are that were active in the last hour. It
// reads one after the other: a minute has time for all of them, and requests have none to wait.
type historian struct {
	stats  *request.Statistics
	queues *surveyor
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
}

func newHistorian(stats *request.Statistics, queues *surveyor, log *slog.Logger) *historian {
	return &historian{stats: stats, queues: queues, log: log}
}

// historyLimit bounds one look.
const historyLimit = 30 * time.Second

// start looks until stop.
func (h *historian) start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	go func() {
		defer close(h.done)
		for {
			next := time.NewTimer(request.UntilStep())
			select {
			case <-next.C:
				h.look(ctx)
			case <-ctx.Done():
				next.Stop()
				return
			}
		}
	}()
}

func (h *historian) stop() {
	if h.cancel != nil {
		h.cancel()
		<-h.done
	}
}

func (h *historian) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, historyLimit)
	defer cancel()
	active := h.stats.EndStep()
	found := make(map[string]request.Lengths, len(active))
	err := h.queues.readPart(ctx, active, looks{}, func(name string, q *survey) {
		found[name] = request.Lengths{Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed}
	})
	if err != nil {
		h.log.Debug("reading how long queues are failed", "error", err)
		active = nil // who was not found may be there
		for name := range found {
			active = append(active, name)
		}
	}
	h.stats.SetLengths(active, found)
}
