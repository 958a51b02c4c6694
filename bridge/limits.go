package bridge

import "github.com/pqbridge/pqbridge/fdbpq"

// Limits bound the requests, bytes and waiting pops of a bridge. Zero means the default.
type Limits struct {
	// Requests in flight. A client that sends 10,000 pushes in a row fits. With
	// more, answers would arrive after the time-outs of clients. Settlements free
	// leases, so four times as many of them are accepted.
	Requests int

	// Bytes of requests in flight: with the default, eight of the largest
	// payloads, or 4 KiB for each of the requests.
	Bytes int64

	// Waiters are pops that wait for an item. Each costs about a kilobyte, 6 KiB at most, but no
	// goroutine and no polling.
	Waiters int

	// BatchRequests and BatchBytes bound one transaction of a lane. More requests
	// would delay their answers without making each one cheaper. The bytes stay well
	// below the limit of a transaction.
	BatchRequests int
	BatchBytes    int
}

// The default limits.
const (
	DefaultRequests      = 16_384
	DefaultBytes         = 64 << 20
	DefaultWaiters       = 10_000
	DefaultBatchRequests = 512
	DefaultBatchBytes    = 1 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Requests <= 0 {
		l.Requests = DefaultRequests
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Waiters <= 0 {
		l.Waiters = DefaultWaiters
	}
	if l.BatchRequests <= 0 {
		l.BatchRequests = DefaultBatchRequests
	}
	l.BatchRequests = min(l.BatchRequests, fdbpq.MaxBatch)
	if l.BatchBytes <= 0 {
		l.BatchBytes = DefaultBatchBytes
	}
	return l
}
