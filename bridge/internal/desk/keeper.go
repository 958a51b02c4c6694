package desk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/subjects"
)

// Keeper runs the store's maintenance and records whether the store commits.
type Keeper struct {
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	problem error // nil while the store commits
	logged  time.Time
}

// logEvery keeps a long outage of the store from flooding the log.
const logEvery = time.Minute

func NewKeeper(log *slog.Logger) *Keeper { return &Keeper{log: log} }

// Hears is what a keeper tells, and asks.
type Hears struct {
	Event   func(fdbpq.Event) // of an item; one at a time
	Fired   func(schedule.Fired)
	Room    func(queue string, items, bytes int) (ended func(), full error) // for items of schedules
	Found   func(fdbpq.Found)
	Deleted func(queue string) // that nobody used
	Waiting func() []string    // the queues at which requests wait: they are in use
}

// Start runs the store's maintenance and its schedules until stop.
func (k *Keeper) Start(store *fdbpq.Store, schedules *schedule.Schedules, hears Hears) {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.done = cancel, make(chan struct{})
	var one sync.Mutex
	happened := func(e fdbpq.Event) {
		one.Lock()
		defer one.Unlock()
		hears.Event(e)
	}
	var running sync.WaitGroup
	running.Go(func() {
		store.Maintain(ctx, fdbpq.Maintenance{Event: happened, Problem: k.wrong, Alive: k.alive, Found: hears.Found, Deleted: hears.Deleted})
	})
	running.Go(func() {
		schedules.Run(ctx, schedule.Runner{
			Event: happened, Problem: k.wrong, Fired: hears.Fired,
			Room:  func(queue string, bytes int) (ended func(), full error) { return hears.Room(queue, 1, bytes) },
			Owner: subjects.Tenant,
		})
	})
	running.Go(func() { k.noteUses(ctx, store, hears.Waiting) })
	go func() {
		defer close(k.done)
		running.Wait()
	}()
}

// usesEvery is how often the keeper notes the use of queues at which requests wait. It is shorter than a tenth of the shortest
// expire_empty, which is how old such a note may be.
const usesEvery = 2 * time.Second

// noteUses notes which queues are in use, although no transaction shows that.
func (k *Keeper) noteUses(ctx context.Context, store *fdbpq.Store, waiting func() []string) {
	ticker := time.NewTicker(usesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, TxTimeout)
		err := store.Use(limited, waiting()...)
		cancel()
		if ctx.Err() == nil {
			k.Notice(err)
		}
	}
}

// wrong notes that a step of the maintenance failed.
func (k *Keeper) wrong(err error) {
	switch {
	case failure.IsOutage(err):
		k.outage(err)
	case errors.Is(err, kv.ErrDamaged):
		k.log.Debug("maintaining the store failed", "error", err) // the store has logged it
	default:
		k.log.Error("maintaining the store failed", "error", err)
	}
}

// Stop ends the maintenance.
func (k *Keeper) Stop() {
	if k.cancel != nil {
		k.cancel()
		<-k.done
	}
}

// outage records an outage that maintenance, a transaction or a source has met. The log tells of it when it begins, and then
// once a minute at most. It counts until the store commits again, which maintenance tries every second.
func (k *Keeper) outage(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem == nil || time.Since(k.logged) >= logEvery {
		k.logged = time.Now()
		k.log.Warn("store error", "error", err)
	}
	k.problem = err
}

func (k *Keeper) alive() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem != nil {
		k.problem = nil
		k.log.Info("the store commits again")
	}
}

// Ready returns why the store does not commit, nil while it does.
func (k *Keeper) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem != nil {
		return fmt.Errorf("store: %w", k.problem)
	}
	return nil
}

// noticeRead does what Notice does, for reads. A read that ran out of time may have been a large one; maintenance
// notices an outage soon enough.
func (k *Keeper) noticeRead(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		k.log.Debug("read took too long", "error", err)
		return
	}
	k.Notice(err)
}

// Notice records err if it is an outage, for [Keeper.Ready].
func (k *Keeper) Notice(err error) {
	if err != nil && failure.IsOutage(err) {
		k.log.Debug("transaction failed", "error", err)
		k.outage(err)
	}
}
