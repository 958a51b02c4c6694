package listening

import (
	"crypto/rand"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Sent remembers the leases of the bundles that were sent last, by the last token of their reply subjects. When no
// client has received a bundle, the server names that subject, which has no room for all leases. If the bundle is
// forgotten by then, its leases run out.
type Sent struct {
	mu     sync.Mutex
	leases map[string][]*fdbpq.Lease // without bundles that were taken
	line   []sentBundle              // the oldest first
	count  int                       // of all leases in the line
}

// sentBundle is the place of a bundle in the line. It stays, and counts, until newer bundles need the room, even if
// the bundle was taken: so the line is bounded like its leases.
type sentBundle struct {
	token  string
	leases int
}

// maxLeases is how many leases are remembered: the leases of a longer time than a server takes to report that no client
// was there.
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

// Take returns the leases of a bundle of a queue once. A token is not valid on the subject of another queue: a
// client that may settle there has no right to this queue.
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
