package tenants

import "github.com/pqbridge/pqbridge/bridge/internal/failure"

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
