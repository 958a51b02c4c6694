package waiting

import "time"

// A client may end without unsubscribing, and its pop would keep its place for up to two minutes. So a sweep asks
// at intervals which clients still listen: more often when places are scarce, and about a bounded number of pops at
// a time. Where most have gone, the next question follows at once.
const (
	askEvery     = 15 * time.Second // for each pop
	askSoon      = time.Second      // instead, while three quarters of the places are taken
	sweepEvery   = time.Second
	sweepAtMost  = 1000 // pops
	shortOfEvery = 4    // places are scarce if at most one in this many is free
)

// sweep has all pops, in the order of the last question about their clients.
type sweep[T any] struct {
	pops  list[T]
	timer *time.Timer
	next  time.Time // when the timer ends; zero: it does not run
	last  time.Time // when the last one began
	under bool      // one is under way
	rest  bool      // of most pops of the last one the clients had gone: those of a connection come together, and the rest is next
}

// plan sets the timer to the next sweep, unless one comes before.
func (p *Pops[T]) plan(now time.Time) {
	s := &p.sweeps
	if s.under || s.pops.size == 0 {
		return
	}
	every := askEvery
	if s.rest || p.ends.size() >= p.options.Places-p.options.Places/shortOfEvery {
		every = askSoon
	}
	due := s.pops.first.pop.asked.Add(every)
	if soonest := s.last.Add(sweepEvery); due.Before(soonest) {
		due = soonest
	}
	if s.next.IsZero() || due.Before(s.next) {
		s.next = due
		s.timer.Reset(due.Sub(now))
	}
}

// sweep ends the waits of clients that have gone.
func (p *Pops[T]) sweep() {
	asked, waits := p.ask()
	var gone []string
	if len(asked) > 0 {
		gone = p.options.Gone(waits)
	}
	for _, pop := range p.forget(asked, gone) {
		p.options.End(pop.caller, ErrGone)
	}
}

// ask returns the pops whose clients this sweep asks about.
func (p *Pops[T]) ask() (asked []*Pop[T], waits []Wait) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := &p.sweeps, time.Now()
	s.next, s.last, s.under = time.Time{}, now, true
	for range min(sweepAtMost, s.pops.size) {
		pop := s.pops.first.pop
		if now.Sub(pop.asked) < askSoon {
			break
		}
		pop.asked = now
		s.pops.drop(&pop.inSweep)
		s.pops.add(pop, &pop.inSweep)
		asked, waits = append(asked, pop), append(waits, pop.wait)
	}
	return asked, waits
}

// forget removes the pops whose clients have gone.
func (p *Pops[T]) forget(asked []*Pop[T], gone []string) (tell []*Pop[T]) {
	nobody := make(map[string]bool, len(gone))
	for _, reply := range gone {
		nobody[reply] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pop := range asked {
		if pop.queue != nil && nobody[pop.wait.Reply] && p.end(pop, ErrGone) {
			tell = append(tell, pop)
		}
	}
	p.sweeps.under = false
	if p.sweeps.rest = len(tell) > len(asked)/2; p.sweeps.rest {
		p.sweeps.last = time.Time{}
	}
	p.plan(time.Now())
	return tell
}

// Unsee bounds the waits of all pops whose clients are not seen any more: they end at this time at the latest.
func (p *Pops[T]) Unsee(unseen func(*Wait) bool, ends time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.sweeps.pops.first; e != nil; e = e.next {
		w := &e.pop.wait
		if w.Unseen || !unseen(w) {
			continue
		}
		w.Unseen = true
		p.unseen++
		if w.Ends.After(ends) {
			w.Ends = ends
			p.ends.fix(e.pop)
		}
	}
	if p.ends.size() > 0 {
		p.expiry.Reset(time.Until(p.ends.first().wait.Ends))
	}
}

// Unseen is how many pops wait whose clients are not seen.
func (p *Pops[T]) Unseen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unseen
}
