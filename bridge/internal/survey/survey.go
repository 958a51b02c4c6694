// Package survey reads the numbers of queues for metrics, STATS and histories.
//
// What it guarantees: a survey reads a bounded number of rows, however many queues and items there are; a queue
// that cannot be read costs only its own numbers; and repeated requests do not keep the store busy all the time.
package survey

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// Surveyor reads the numbers of queues for metrics and STATS. Metrics are about the queues with a place in the
// statistics, so a survey is bounded however many queues there are.
type Surveyor struct {
	store   *fdbpq.Store
	sources *source.Sources
	waiting func(queue string) int
	cause   Cause
	places  *request.PerQueue

	mu     sync.Mutex // a survey is under way, or its result is read
	latest map[string]queue
	feeds  []source.Source
	links  []link.Link
	err    error
	until  time.Time // the latest one is used until then
}

// Cause returns the cause for which nothing of a queue moves, as far as this bridge alone knows.
type Cause func(r kv.Reader, q fdbpq.Queue, found *Found) (protocol.Cause, error)

// New returns a surveyor of the queues with a place. waiting is the number of pops that wait at a queue.
func New(store *fdbpq.Store, sources *source.Sources, waiting func(queue string) int, cause Cause, places *request.PerQueue) *Surveyor {
	return &Surveyor{store: store, sources: sources, waiting: waiting, cause: cause, places: places}
}

// queue has the numbers of a queue, from the store and from the bridge.
type queue struct {
	Found
	waiting int
	cause   protocol.Cause // "" where the look was not for it
}

// Found has the numbers of a queue from the store.
type Found struct {
	fdbpq.Inspection
	OldestReady fdbpq.Oldest
	OldestLease fdbpq.OldestLease
	Held        fdbpq.Held // by links
	KeyCounts   fdbpq.KeyCounts
	now         time.Time // when it was read
}

// Read looks at a queue. It returns nil if there is none.
func Read(r kv.Reader, q fdbpq.Queue, most Looks) (*Found, error) {
	i, err := q.Inspect(r)
	if err != nil || i == nil {
		return nil, err
	}
	f := &Found{Inspection: *i, now: time.Now()}
	if i.Ready > 0 && most.Priorities > 0 {
		f.OldestReady, err = q.OldestReady(r, most.Priorities)
	}
	if i.Leased > 0 && most.Leases > 0 && err == nil {
		if f.OldestLease, err = q.OldestLease(r, most.Leases); err == nil {
			f.Held, err = link.New(q.Store()).Held(r, q)
		}
	}
	if i.Keyed && most.Keys > 0 && err == nil {
		f.KeyCounts, err = q.CountKeys(r, most.Keys)
	}
	return f, err
}

// NextAge is the age in seconds of the item that pop.min would take, 0 when there is none.
func (f *Found) NextAge() float64 {
	if f.Next == nil {
		return 0
	}
	return f.age(f.Next.Pushed)
}

// ReadyAge is the age in seconds of the oldest ready item that was found, 0 when there is none.
func (f *Found) ReadyAge() float64 { return f.age(f.OldestReady.Pushed) }

// LeaseAge is the age in seconds of the oldest lease that was found, 0 when there is none.
func (f *Found) LeaseAge() float64 { return max(0, f.OldestLease.Age.Seconds()) }

// LatestLeaseAge is how many seconds ago the latest lease that was found began, 0 when there is none.
func (f *Found) LatestLeaseAge() float64 { return f.OldestLease.Latest.Seconds() }

// age is how many seconds before the look a time was, 0 for the zero time.
func (f *Found) age(then time.Time) float64 {
	if then.IsZero() {
		return 0
	}
	return max(0, f.now.Sub(then).Seconds())
}

// Looks bounds the reads of a look at a queue; 0: none of that kind. Priorities are read for the oldest item,
// leases for the oldest lease and for the leases of links.
type Looks struct {
	Priorities, Leases, Keys int
	Cause                    bool // of a survey: why nothing moves
}

// Deep are the bounds of a look at a single queue.
var Deep = Looks{Priorities: 64, Leases: 256}

const (
	// surveyTimeout bounds the time that a scrape waits for the store.
	surveyTimeout = 2 * time.Second

	// surveyIdle is how many times as long as a survey took no further survey is made. Otherwise frequent scrapes
	// would keep the store busy all the time.
	surveyIdle = 10

	// surveyLooks bounds the priorities that a survey reads in all queues together, and the keys that it counts.
	surveyLooks = 1 << 14

	// surveyLeases bounds the leases likewise.
	surveyLeases = 1 << 15
)

// looksEach are the bounds for each queue in a survey of this many.
func looksEach(queues int) Looks {
	priorities := min(Deep.Priorities, max(4, surveyLooks/max(1, queues)))
	return Looks{Priorities: priorities, Leases: min(Deep.Leases, max(4, surveyLeases/max(1, queues))), Keys: priorities, Cause: true}
}

// survey returns the queues with a place, all sources, and all links. With an error it also returns those that it
// has read.
func (s *Surveyor) survey(ctx context.Context) (map[string]queue, []source.Source, []link.Link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	started := time.Now()
	if started.Before(s.until) {
		return s.latest, s.feeds, s.links, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	var failed error
	s.latest, s.err = s.read(ctx)
	s.feeds, s.links, failed = s.readMoves(ctx)
	s.err = errors.Join(s.err, failed)
	s.until = time.Now().Add(surveyIdle * time.Since(started))
	return s.latest, s.feeds, s.links, s.err
}

// readMoves returns the sources and links of the store.
func (s *Surveyor) readMoves(ctx context.Context) (feeds []source.Source, links []link.Link, err error) {
	err = s.store.View(ctx, func(r kv.Reader) (err error) {
		if feeds, err = s.sources.All(r); err == nil {
			links, err = link.New(s.store).All(r)
		}
		return err
	})
	return feeds, links, err
}

func (s *Surveyor) read(ctx context.Context) (map[string]queue, error) {
	names, free := s.places.Look()
	if free > 0 {
		more, err := s.firstNames(ctx, len(names)+free)
		if err != nil {
			return nil, err
		}
		s.places.Fill(more)
		names, _ = s.places.Look()
	}
	return s.readAll(ctx, names, looksEach(len(names)))
}

// surveyReaders is how many queues are read at the same time: over a network, reading many
// queues one by one would take seconds.
const surveyReaders = 16

// readAll reads queues. With an error it also returns the queues that it has read.
func (s *Surveyor) readAll(ctx context.Context, names []string, most Looks) (map[string]queue, error) {
	slices.Sort(names) // rows that lie together are read together
	surveys := make(map[string]queue, len(names))
	var mu sync.Mutex
	var readers sync.WaitGroup
	var failed error
	for part := range slices.Chunk(names, max(1, (len(names)+surveyReaders-1)/surveyReaders)) {
		readers.Go(func() {
			err := s.readPart(ctx, part, most, func(name string, one *queue) {
				mu.Lock()
				defer mu.Unlock()
				surveys[name] = *one
			})
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	readers.Wait()
	return surveys, failed
}

func (s *Surveyor) firstNames(ctx context.Context, most int) (names []string, err error) {
	err = s.store.View(ctx, func(r kv.Reader) error {
		names, err = s.store.Queues(r, "", most)
		return err
	})
	return names, err
}

// surveyedTogether is how many queues one transaction reads: queues read before an error count, and many
// transactions cost more than one.
const surveyedTogether = 16

func (s *Surveyor) readPart(ctx context.Context, names []string, most Looks, found func(string, *queue)) error {
	var failed error
	for together := range slices.Chunk(names, surveyedTogether) {
		err := s.readTogether(ctx, together, most, found)
		if err != nil && failure.IsOutage(err) {
			return err
		}
		if err == nil {
			continue
		}
		for _, name := range together { // one of them cannot be read, and the others can
			failed = errors.Join(failed, s.readTogether(ctx, []string{name}, most, found))
		}
	}
	return failed
}

func (s *Surveyor) readTogether(ctx context.Context, names []string, most Looks, found func(string, *queue)) error {
	surveys := make([]*Found, len(names))
	causes := make([]protocol.Cause, len(names))
	err := s.store.View(ctx, func(r kv.Reader) (err error) {
		for i, name := range names {
			q := s.store.Queue(name)
			if surveys[i], err = Read(r, q, most); err == nil && surveys[i] != nil && most.Cause {
				causes[i], err = s.cause(r, q, surveys[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, one := range surveys {
		if one == nil {
			s.places.Gone(names[i])
			continue
		}
		found(names[i], &queue{*one, s.waiting(names[i]), causes[i]})
	}
	return nil
}

// Stats are the numbers of a queue in the data that STATS shows of the endpoint
// info.
type Stats struct {
	Ready   int64   `json:"ready"`
	Leased  int64   `json:"leased"`
	Delayed int64   `json:"delayed"`
	Oldest  float64 `json:"oldest"`
	Waiting int     `json:"waiting"`
}

// Stats reads the first queues, up to a limit. With an error it also returns the queues that it has read. It looks
// for no oldest item: otherwise repeated requests for STATS would make the store look at thousands of priorities
// each time.
func (s *Surveyor) Stats(ctx context.Context, most int) (map[string]Stats, error) {
	names, err := s.firstNames(ctx, most)
	if err != nil {
		return nil, err
	}
	surveys, err := s.readAll(ctx, names, Looks{})
	queues := make(map[string]Stats, len(surveys))
	for name, q := range surveys {
		queues[name] = Stats{Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Oldest: q.NextAge(), Waiting: q.waiting}
	}
	return queues, err
}

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
