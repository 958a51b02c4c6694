package client

import "sync"

// rights are what the user of a connection is known to be allowed, by queues.
type rights struct {
	connection func() uint64 // the number of the present one

	mu     sync.Mutex
	on     uint64          // the number of the connection
	queues map[string]bool // of that connection
}

// of returns what is known of a queue.
func (r *rights) of(queue string) (may, known bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on {
		return false, false
	}
	may, known = r.queues[queue]
	return may, known
}

func (r *rights) set(queue string, may bool) {
	n := r.connection()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.on || r.queues == nil {
		r.on, r.queues = n, make(map[string]bool)
	}
	r.queues[queue] = may
}
