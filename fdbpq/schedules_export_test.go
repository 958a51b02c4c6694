package fdbpq

import "context"

// FireOf is Fire with queues that have owners.
func (s *Store) FireOf(ctx context.Context, owner func(queue string) string) (Fired, error) {
	return s.fire(ctx, nil, owner)
}

// BoundLate bounds how many due rows wait for their turn, and are read in one transaction, and at a time.
func (s *Store) BoundLate(ofQueue, inAll, read, page int) {
	s.runner.late.bounds = lateBounds{ofQueue: ofQueue, inAll: inAll, read: read, page: page}
	s.runner.late.forget()
}

// SetZoneData has the process take its zones of the tz database for another version.
func (s *Store) SetZoneData(version string) { s.runner.zoneData = version }
