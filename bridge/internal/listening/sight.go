package listening

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
)

// Sight knows which clients are seen: for them the server can tell whether they listen. It cannot if it maps the
// reply subject, before version 2.11, and if another client listens to all inboxes of a kind. Such a client is
// found by a question about inboxes that nobody has.
type Sight struct {
	*Asker

	mu    sync.Mutex
	heard map[kind]bool // kinds with a listener to all inboxes
}

// kind is a kind of inboxes, which differ only in random tokens.
type kind struct {
	prefix string
	tokens int // behind it
}

// NewSight returns the sight of an asker.
func NewSight(a *Asker) *Sight { return &Sight{Asker: a} }

// Sees reports whether the server can tell whether a client listens at a reply subject.
func (s *Sight) Sees(reply string) bool {
	if mapped(reply) || !s.Local() && !traces(s.nc.ConnectedServerVersion()) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heard) == 0 || !s.heard[kindOf(reply)]
}

// Sweep returns the reply subjects without a listener. It also finds out which clients are seen: for the kinds of
// these reply subjects, and for kinds where another client listened. hidden says that a kind was seen before and is
// not any more.
func (s *Sight) Sweep(replies []string) (gone []string, hidden bool) {
	kinds := s.kinds(replies)
	ask := slices.Clone(replies)
	for _, k := range kinds {
		ask = append(ask, k.inbox())
	}
	nobody, answered := s.Ask(ask).wait(s.patience)
	there := make(map[string]bool, len(kinds)) // kinds with a listener to all inboxes
	for _, inbox := range ask[len(replies):] {
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
		hidden = s.found(kinds, func(i int) bool { return there[ask[len(replies)+i]] })
	}
	return gone, hidden
}

// kinds returns the kinds of the reply subjects, and the kinds that had a listener to all.
func (s *Sight) kinds(replies []string) (all []kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[kind]bool)
	for k := range s.heard {
		known[k] = true
		all = append(all, k)
	}
	for _, reply := range replies {
		if k := kindOf(reply); k.tokens > 0 && !mapped(reply) && !known[k] {
			known[k] = true
			all = append(all, k)
		}
	}
	return all
}

// found notes the kinds of inboxes with a listener to all.
func (s *Sight) found(kinds []kind, there func(i int) bool) (hidden bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.heard
	s.heard = make(map[kind]bool)
	for i, k := range kinds {
		if there(i) {
			s.heard[k] = true
			hidden = hidden || !before[k]
		}
	}
	return hidden
}

// nuid is the length of the token that client libraries choose for a connection, or for a request.
const nuid = 22

// kindOf divides a reply subject before the first token that a library has chosen at random. If it finds none, it
// takes the last two tokens for the tokens of the connection and of the request.
func kindOf(reply string) kind {
	tokens := strings.Split(reply, ".")
	n := max(1, len(tokens)-2)
	if i := slices.IndexFunc(tokens, func(token string) bool { return len(token) == nuid }); i > 0 {
		n = i
	}
	return kind{strings.Join(tokens[:n], "."), len(tokens) - n}
}

// inbox returns an inbox of the kind that nobody has.
func (k kind) inbox() string {
	inbox := k.prefix
	for range k.tokens {
		inbox += "." + rand.Text()[:nuid]
	}
	return inbox
}
