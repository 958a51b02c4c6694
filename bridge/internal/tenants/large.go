package tenants

import "github.com/pqbridge/pqbridge/bridge/internal/failure"

// large is a request that may cost more than one, which is known only when it is done. Until then what it may
// cost is reserved: of many that come at once, a tenant has as many under way as its rate has requests
// for, and one at least.
type large struct {
	n     int
	start func(*failure.Failure)
}

// Begin starts a request that may cost n, now or when those before it are done, or says why the tenant may not have
// it any more. It has to be ended, unless it was refused. What it has cost is owed to the tenant's share before.
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

// starting are requests that leave the line, and why they are refused.
type starting []struct {
	large
	refused *failure.Failure
}

func (s starting) start() {
	for _, one := range s {
		one.large.start(one.refused)
	}
}

// next takes what may start from the line. The lock is held.
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
