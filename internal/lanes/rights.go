package lanes

import "sync"

// Rights are what the user of a connection is known to be allowed, by queues. Get them from [NewRights].
type Rights struct {
	connection func() uint64 // the number of the present one

	mu     sync.Mutex
	on     uint64          // the number of the connection
	queues map[string]bool // of that connection
}

// mostRights is how many queues are remembered. What was forgotten is found out again.
const mostRights = 4096

// NewRights returns rights of which nothing is known. connection returns the number of the present connection: those of an
// earlier one may have been others.
func NewRights(connection func() uint64) *Rights { return &Rights{connection: connection} }

// Of returns what is known of a queue.
func (r *Rights) Of(queue string) (may, known bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on {
		return false, false
	}
	may, known = r.queues[queue]
	return may, known
}

// Set notes what the user is allowed on a queue.
func (r *Rights) Set(queue string, may bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on || r.queues == nil {
		r.on, r.queues = n, make(map[string]bool)
	}
	if _, known := r.queues[queue]; !known && len(r.queues) >= mostRights {
		for some := range r.queues {
			delete(r.queues, some)
			break
		}
	}
	r.queues[queue] = may
}
