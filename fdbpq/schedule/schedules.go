package schedule

import (
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/internal/calendar"
)

// Schedules are the schedules of a store as one process has them. Its methods may be called from any number of
// goroutines. Those that take a queue work inside a transaction of the caller, as the methods of the queue do.
type Schedules struct {
	store  *fdbpq.Store
	inside *inside.Store
	runner runner
}

// New returns the schedules of a store. A process has one of them for each store that it opens.
func New(store *fdbpq.Store) *Schedules {
	s := &Schedules{store: store, inside: store.Inside()}
	s.runner.zoneData = calendar.ZoneData
	if s.inside.Zones != "" {
		s.runner.zoneData = s.inside.Zones
	}
	s.runner.late.bounds = lateBounds{ofQueue: 4096, inAll: 65_536, read: 32_768, page: 1024}
	if b := s.inside.Late; b != nil {
		s.runner.late.bounds = lateBounds{ofQueue: b[0], inAll: b[1], read: b[2], page: b[3]}
	}
	s.runner.late.forget()
	return s
}
