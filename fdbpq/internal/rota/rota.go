// Package rota has those who wait take turns, however many entries each has.
//
// What it guarantees: owners take turns, and so do the queues of one owner; the entries of a queue keep their order. Whoever comes
// waits for at most one turn of each owner, and of each queue of its own one. What is kept is bounded, and
// each queue has a place.
package rota

// Rota are entries that wait for their turn. The zero Rota is not usable: see [New].
type Rota[E any] struct {
	ofQueue, inAll int

	owners ring[*owner[E]]
	keys   map[string]bool // of all entries
}

type owner[E any] struct {
	name   string
	queues ring[*queue[E]]
}

type queue[E any] struct {
	name    string
	waiting []waiting[E]
}

type waiting[E any] struct {
	key   string
	entry E
}

// New returns a Rota without entries. It keeps so many of a queue, and of all queues; beyond that one of each queue.
func New[E any](ofQueue, inAll int) *Rota[E] {
	return &Rota[E]{ofQueue: ofQueue, inAll: inAll, owners: newRing[*owner[E]](), keys: make(map[string]bool)}
}

// Add has an entry wait behind those of its queue, unless it does already. It reports whether there was room.
func (r *Rota[E]) Add(ownerName, queueName, key string, e E) bool {
	if r.keys[key] {
		return true
	}
	o := r.owners.of(ownerName, func() *owner[E] { return &owner[E]{name: ownerName, queues: newRing[*queue[E]]()} })
	q := o.queues.of(queueName, func() *queue[E] { return &queue[E]{name: queueName} })
	if len(q.waiting) > 0 && (len(q.waiting) >= r.ofQueue || len(r.keys) >= r.inAll) {
		return false
	}
	r.keys[key] = true
	q.waiting = append(q.waiting, waiting[E]{key, e})
	return true
}

// Next takes the entry whose turn it is, if there is one.
func (r *Rota[E]) Next() (e E, ok bool) {
	if r.Len() == 0 {
		return e, false
	}
	o := r.owners.turn()
	q := o.queues.turn()
	first := q.waiting[0]
	q.waiting = q.waiting[1:]
	delete(r.keys, first.key)
	if len(q.waiting) > 0 {
		o.queues.add(q.name, q)
	}
	if o.queues.len() > 0 {
		r.owners.add(o.name, o)
	}
	return first.entry, true
}

// Len is how many entries wait.
func (r *Rota[E]) Len() int { return len(r.keys) }

// ring are those of whom each has a turn, in the order in which they wait for it.
type ring[T any] struct {
	line  []string
	known map[string]T
}

func newRing[T any]() ring[T] { return ring[T]{known: make(map[string]T)} }

// of returns one by its name, which waits for its turn from now on.
func (r *ring[T]) of(name string, make func() T) T {
	one, ok := r.known[name]
	if !ok {
		one = make()
		r.add(name, one)
	}
	return one
}

func (r *ring[T]) add(name string, one T) {
	r.line = append(r.line, name)
	r.known[name] = one
}

// turn takes the first.
func (r *ring[T]) turn() T {
	name := r.line[0]
	r.line = r.line[1:]
	one := r.known[name]
	delete(r.known, name)
	return one
}

func (r *ring[T]) len() int { return len(r.line) }
