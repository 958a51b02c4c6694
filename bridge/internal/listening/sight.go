package listening

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
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

const (
	// mostHeard bounds the kinds with a listener to all inboxes that are remembered. Each sweep asks about all of them.
	mostHeard = 128

	// mostNew bounds the new kinds that a sweep asks about.
	mostNew = 256

	// heardLasts is how long a kind is remembered that no client has. An unseen client asks again within MaxWaitUnseen.
	heardLasts = time.Minute
)

// kind is a kind of inboxes, which differ only in random tokens.
type kind struct {
	prefix string
	tokens int // behind it
}

// nuid is the length of the token that client libraries choose for a connection, or for a request.
const nuid = 22

// mostTokens is how many random tokens a kind may have: libraries use up to three. A question with many more would be
// longer than a server takes, which ends the bridge's connection then.
const mostTokens = 16

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

// kinds are the kinds with a listener to all inboxes, as far as they are remembered. When all places are taken, a queue
// with less than its share gets a place from the queue with the most. The other clients of a queue that has its share
// count as unseen: their kinds are not asked about.
type kinds struct {
	of     map[kind]*heard
	counts map[string]int // of kinds, by queue
	most   int            // of the counts
}

// heard is a kind with a listener to all inboxes.
type heard struct {
	queue string    // whose client brought it
	used  time.Time // when a client last had it
}

// kindAt is a kind that a client at a queue has.
type kindAt struct {
	kind  kind
	queue string
}

// crowded reports whether a queue has its share of all places.
func (k *kinds) crowded(queue string) bool {
	return len(k.of) >= mostHeard && k.counts[queue]+1 >= k.most
}

// add remembers a kind, unless its queue has its share.
func (k *kinds) add(q kindAt, now time.Time) {
	if k.crowded(q.queue) {
		return
	}
	if len(k.of) >= mostHeard {
		k.remove(k.oldest())
	}
	k.of[q.kind] = &heard{q.queue, now}
	k.counts[q.queue]++
	k.most = max(k.most, k.counts[q.queue])
}

func (k *kinds) remove(of kind) {
	queue := k.of[of].queue
	delete(k.of, of)
	if k.counts[queue]--; k.counts[queue] == 0 {
		delete(k.counts, queue)
	}
	k.most = 0
	for n := range maps.Values(k.counts) {
		k.most = max(k.most, n)
	}
}

// oldest is the kind of the queue with the most that clients have not had for longest.
func (k *kinds) oldest() (oldest kind) {
	for of, h := range k.of {
		if k.counts[h.queue] == k.most && (oldest == kind{} || h.used.Before(k.of[oldest].used)) {
			oldest = of
		}
	}
	return oldest
}

// since forgets the kinds that clients had before a time, and returns the others.
func (k *kinds) since(last time.Time) (all []kindAt) {
	for of, h := range maps.Clone(k.of) {
		if h.used.Before(last) {
			k.remove(of)
		} else {
			all = append(all, kindAt{of, h.queue})
		}
	}
	return all
}

// turns chooses up to most different kinds: queues take turns, and of each queue any kinds are chosen.
func turns(of map[string]map[kind]bool, most int) (chosen []kindAt) {
	once := make(map[kind]bool)
	for len(of) > 0 {
		for queue, kinds := range of {
			if len(chosen) == most {
				return chosen
			}
			for k := range kinds {
				if delete(kinds, k); !once[k] {
					once[k] = true
					chosen = append(chosen, kindAt{k, queue})
				}
				break
			}
			if len(kinds) == 0 {
				delete(of, queue)
			}
		}
	}
	return chosen
}
