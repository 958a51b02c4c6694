package tenants

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
)

// large is a request that may cost more than one, and whose cost is known only when it is done. Until then its
// largest cost is reserved. Of many large requests that come at once, as many are under way as the rate has
// requests for, and at least one.
type large struct {
	n     int
	start func(*failure.Failure)
}

// Begin starts a request that may cost n, now or when the large requests before it are done, or says why the tenant
// has no requests left. The caller has to End it, unless it was refused. The request's real cost has to be owed to
// the tenant's share before End.
func (t *Tenant) Begin(n int, start func(*failure.Failure)) {
	t.mu.Lock()
	t.line = append(t.line, large{n, start})
	ready := t.next()
	t.mu.Unlock()
	ready.start()
}

// End ends a request that has begun.
func (t *Tenant) End(n int) {
	t.mu.Lock()
	t.running--
	t.reserved -= float64(n)
	ready := t.next()
	t.mu.Unlock()
	ready.start()
}

// starting are requests that leave the line, with the reason if they are refused.
type starting []struct {
	large
	refused *failure.Failure
}

func (s starting) start() {
	for _, one := range s {
		one.large.start(one.refused)
	}
}

// next takes the requests that may start from the line. The lock is held.
func (t *Tenant) next() (ready starting) {
	most := t.refill()
	for len(t.line) > 0 {
		first := t.line[0]
		var refused *failure.Failure
		switch {
		case most > 0 && t.tokens < 0:
			t.refused[reasonRate]++
			refused = failures[reasonRate]
		case most > 0 && t.running > 0 && t.tokens-t.reserved < float64(first.n):
			return ready
		default:
			t.running++
			t.reserved += float64(first.n)
		}
		t.line[0] = large{}
		t.line = t.line[1:]
		ready = append(ready, struct {
			large
			refused *failure.Failure
		}{first, refused})
	}
	t.line = nil
	return ready
}

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
