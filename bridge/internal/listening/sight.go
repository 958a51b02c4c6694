package listening

import (
	"sync"
	"time"
)

// Sight knows which clients are seen: for them the server can tell whether they listen. It cannot if it maps the
// reply subject, before version 2.11, and if another client listens to all inboxes of a kind. Such a client is
// found by a question about inboxes that nobody has.
//
// Clients choose their reply subjects, and with them the kinds. So Sight learns a bounded number of kinds, which queues
// share: a client has rights at queues, and cannot choose those. See [kinds].
type Sight struct {
	*Asker
	now func() time.Time

	mu    sync.Mutex
	heard kinds // with a listener to all inboxes
}

// Client is a client whose pop waits: the queue, and the reply subject at which it listens.
type Client struct{ Queue, Reply string }

// NewSight returns the sight of an asker.
func NewSight(a *Asker) *Sight {
	return &Sight{Asker: a, now: time.Now, heard: kinds{of: make(map[kind]*heard), counts: make(map[string]int)}}
}

// Sees reports whether the server can tell whether a client listens.
func (s *Sight) Sees(c Client) bool {
	if mapped(c.Reply) || !s.Local() && !traces(s.nc.ConnectedServerVersion()) {
		return false
	}
	k := kindOf(c.Reply)
	if k.tokens > mostTokens {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.heard.of[k]; h != nil {
		h.used = s.now()
		return false
	}
	return !s.heard.crowded(c.Queue)
}

// Sweep returns the reply subjects without a listener. It also finds out which clients are seen: for kinds of these
// reply subjects, and for kinds where another client listened. hidden says that a kind was seen before and is not any
// more.
func (s *Sight) Sweep(clients []Client) (gone []string, hidden bool) {
	asked := s.kinds(clients)
	var ask []string
	for _, c := range clients {
		ask = append(ask, c.Reply)
	}
	for _, a := range asked {
		ask = append(ask, a.kind.inbox())
	}
	nobody, answered := s.Ask(ask).wait(s.patience)
	there := make(map[string]bool, len(asked)) // inboxes of kinds with a listener to all
	for _, inbox := range ask[len(clients):] {
		there[inbox] = true
	}
	for _, reply := range nobody {
		if there[reply] {
			delete(there, reply)
		} else {
			gone = append(gone, reply)
		}
	}
	if answered {
		hidden = s.found(asked, func(i int) bool { return there[ask[len(clients)+i]] })
	}
	return gone, hidden
}

// kinds returns the kinds that had a listener to all, and new kinds of clients. It forgets kinds that no client has any
// more.
func (s *Sight) kinds(clients []Client) []kindAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, fresh := s.now(), make(map[string]map[kind]bool) // by queue
	for _, c := range clients {
		k := kindOf(c.Reply)
		switch h := s.heard.of[k]; {
		case k.tokens == 0 || k.tokens > mostTokens || mapped(c.Reply):
		case h != nil:
			h.used = now
		case !s.heard.crowded(c.Queue):
			if fresh[c.Queue] == nil {
				fresh[c.Queue] = make(map[kind]bool)
			}
			fresh[c.Queue][k] = true
		}
	}
	return append(s.heard.since(now.Add(-heardLasts)), turns(fresh, mostNew)...)
}

// found notes the kinds with a listener to all.
func (s *Sight) found(asked []kindAt, there func(i int) bool) (hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range asked {
		known := s.heard.of[q.kind] != nil
		switch {
		case known && !there(i):
			s.heard.remove(q.kind)
		case !known && there(i):
			s.heard.add(q, s.now())
			hidden = true
		}
	}
	return hidden
}
