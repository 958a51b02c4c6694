package tenants

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
)

// rowsOfRequest is how many rows, as package meter counts them, cost as much as a request.
const rowsOfRequest = 200

// keysOfRequest is how many keys, whose rows a sweep has written, cost as much as a request.
const keysOfRequest = 16

// CostOfRows is how many requests such rows cost beyond those that were paid otherwise.
func CostOfRows(rows, paid int) int { return max(0, rows/rowsOfRequest-paid) }

// CostOfKeys is how many requests cost as much as such keys.
func CostOfKeys(n int) int { return (n + keysOfRequest - 1) / keysOfRequest }

// Weigh charges requests for rows that were read and written. The tenant owes them until its rate has brought as many.
func (t *Tenant) Weigh(cost int) {
	if t == nil || cost == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refill()
	t.spend(int64(cost))
	t.forRows += float64(cost)
}

// overdraft is for how long a tenant's rate may have to bring what its rows have cost, and requests that were admitted
// before are served nevertheless.
const overdraft = time.Second / 4

// Overdrawn says why a request is not served, although it was admitted: what the rows of requests that were admitted
// with it have cost, and more that was not charged yet, is beyond the overdraft. Nobody knows before what a request
// reads, and otherwise all requests that are under way might read as much.
func (t *Tenant) Overdrawn(more int) *failure.Failure {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if most := t.refill(); most > 0 && t.forRows+float64(more) >= most*overdraft.Seconds() {
		t.refused[reasonRate]++
		return failures[reasonRate]
	}
	return nil
}
