package bridge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// surveyor reads what metrics and STATS say about queues. Metrics are of those that have a
// place in the statistics, so however many there are, a survey has bounds.
type surveyor struct {
	store  *fdbpq.Store
	waits  *waits
	places *request.PerQueue

	mu     sync.Mutex // a survey is under way, or its result is read
	latest map[string]survey
	err    error
	until  time.Time // the latest one is used until then
}

// survey is what the store says about a queue.
type survey struct {
	fdbpq.Inspection
	ready   fdbpq.Oldest
	lease   fdbpq.OldestLease
	keys    fdbpq.KeyCounts
	waiting int
	now     time.Time // when it was read
}

const (
	// surveyTimeout bounds the time that a scrape waits for the store.
	surveyTimeout = 2 * time.Second

	// surveyIdle is for how many times as long as a survey took no other one is made.
	// Otherwise those who scrape all the time would have the store work all the time.
	surveyIdle = 10

	// surveyLooks bounds the priorities that a survey looks at, in all queues together, and
	// the keys that it counts.
	surveyLooks = 1 << 14

	// surveyLeases bounds the leases likewise.
	surveyLeases = 1 << 15
)

// leasesEach is at how many leases of each queue a survey of so many looks.
func leasesEach(queues int) int {
	return min(infoLeases, max(4, surveyLeases/max(1, queues)))
}

// looks is at how much of a queue a survey looks. Without priorities it counts no keys and
// knows no oldest item, without leases no oldest lease.
type looks struct{ priorities, leases int }

// looksEach is at how many priorities, and keys, of each queue a survey of so many looks.
func looksEach(queues int) int {
	return min(infoLooks, max(4, surveyLooks/max(1, queues)))
}

// survey returns the queues that have a place. With an error it also returns those that
// it has read.
func (s *surveyor) survey(ctx context.Context) (map[string]survey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	started := time.Now()
	if started.Before(s.until) {
		return s.latest, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	s.latest, s.err = s.read(ctx)
	s.until = time.Now().Add(surveyIdle * time.Since(started))
	return s.latest, s.err
}

func (s *surveyor) read(ctx context.Context) (map[string]survey, error) {
	names, free := s.places.Look()
	if free > 0 {
		more, err := s.firstNames(ctx, len(names)+free)
		if err != nil {
			return nil, err
		}
		s.places.Fill(more)
		names, _ = s.places.Look()
	}
	return s.readAll(ctx, names, looks{priorities: looksEach(len(names)), leases: leasesEach(len(names))})
}

// surveyReaders is how many queues are read at the same time: over a network, reading many
// queues one by one would take seconds.
const surveyReaders = 16

// readAll reads queues. With an error it also returns those that it has read.
func (s *surveyor) readAll(ctx context.Context, names []string, most looks) (map[string]survey, error) {
	slices.Sort(names) // rows that lie together are read together
	surveys := make(map[string]survey, len(names))
	var mu sync.Mutex
	var readers sync.WaitGroup
	var failed error
	for part := range slices.Chunk(names, max(1, (len(names)+surveyReaders-1)/surveyReaders)) {
		readers.Go(func() {
			err := s.readPart(ctx, part, most, func(name string, one *survey) {
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

func (s *surveyor) firstNames(ctx context.Context, most int) (names []string, err error) {
	err = s.store.View(ctx, func(r kv.Reader) error {
		names, err = s.store.Queues(r, "", most)
		return err
	})
	return names, err
}

// surveyedTogether is how many queues one transaction reads: what was read before an
// error counts, and many transactions cost more than one.
const surveyedTogether = 16

func (s *surveyor) readPart(ctx context.Context, names []string, most looks, found func(string, *survey)) error {
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

func (s *surveyor) readTogether(ctx context.Context, names []string, most looks, found func(string, *survey)) error {
	surveys := make([]*survey, len(names))
	err := s.store.View(ctx, func(r kv.Reader) (err error) {
		for i, name := range names {
			if surveys[i], err = s.readQueue(r, name, most); err != nil {
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
		found(names[i], one)
	}
	return nil
}

// readQueue returns nil if there is no such queue.
func (s *surveyor) readQueue(r kv.Reader, name string, most looks) (*survey, error) {
	queue := s.store.Queue(name)
	i, err := queue.Inspect(r)
	if err != nil || i == nil {
		return nil, err
	}
	one := &survey{Inspection: *i, waiting: s.waits.at(name), now: time.Now()}
	if i.Ready > 0 && most.priorities > 0 {
		one.ready, err = queue.OldestReady(r, most.priorities)
	}
	if i.Leased > 0 && most.leases > 0 && err == nil {
		one.lease, err = queue.OldestLease(r, most.leases)
	}
	if i.Keyed && most.priorities > 0 && err == nil {
		one.keys, err = queue.CountKeys(r, most.priorities)
	}
	return one, err
}
