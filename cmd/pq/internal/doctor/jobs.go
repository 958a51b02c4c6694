package doctor

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// manyJobs is how many times as long as its other jobs one of a queue takes that hangs.
const manyJobs = 10

// takesLong reports whether other jobs of a queue took about as long in the last hour, as far as a bridge saw them: workers that
// extend their leases take their time there.
func takesLong(d *doctor, i *client.Info) bool {
	var h *client.History
	_, err := d.try(func(ctx context.Context) (err error) {
		h, err = d.client.Queue(i.Queue).History(ctx)
		return err
	})
	return err == nil && h != nil && show.Seconds(i.OldestLease) < manyJobs*usual(h, show.Seconds(i.LatestLease))
}

// usual is how long a job took on average, before the time in which no lease began; 0: none has ended.
func usual(h *client.History, stands time.Duration) time.Duration {
	var leased, settled int64
	for n, at := range h.Leased[:max(0, len(h.Leased)-int(stands.Seconds()/max(1, h.Step)))] {
		if at != nil {
			leased += *at
		}
		if n < len(h.Settle) {
			settled += h.Settle[n]
		}
	}
	if settled == 0 {
		return 0
	}
	return show.Seconds(float64(leased) * h.Step / float64(settled))
}
