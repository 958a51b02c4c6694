package listening

import (
	"crypto/rand"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Sent is the leases of the bundles that were sent last, by the last token of
// their reply subjects. The server names that subject when no client has received a bundle,
// and it has no room for all leases. The leases of a bundle that is forgotten by then run out.
type Sent struct {
	mu     sync.Mutex
	leases map[string][]*fdbpq.Lease // without bundles that were taken
	line   []sentBundle              // the oldest first
	count  int                       // of all leases in the line
}

// sentBundle is the place of a bundle in the line. It stays, and counts, until newer bundles
// need the room, also when the bundle was taken: so the line is as bounded as its leases.
type sentBundle struct {
	token  string
	leases int
}

// maxLeases is how many leases are remembered: those of more time than a server takes
// to say that nobody was there.
const maxLeases = 1 << 15

// Add remembers the leases of a bundle, at least one, and returns a token that no client can
// guess.
func (s *Sent) Add(leases []*fdbpq.Lease) (token string) {
	token = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == nil {
		s.leases = make(map[string][]*fdbpq.Lease)
	}
	s.leases[token] = leases
	s.line = append(s.line, sentBundle{token, len(leases)})
	for s.count += len(leases); s.count > maxLeases && len(s.line) > 1; s.line = s.line[1:] {
		s.count -= s.line[0].leases
		delete(s.leases, s.line[0].token)
	}
	return token
}

// Take returns the leases of a bundle of a queue once. A token is none on the subject of another
// queue: who may settle that one has no right to this one.
func (s *Sent) Take(queue, token string) []*fdbpq.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases[token]
	if len(leases) == 0 || leases[0].Queue != queue {
		return nil
	}
	delete(s.leases, token)
	return leases
}
