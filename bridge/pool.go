package bridge

import "sync"

// pool keeps requests of one kind for further use.
type pool[T any] struct{ free sync.Pool }

func (p *pool[T]) get() *T {
	if w, is := p.free.Get().(*T); is {
		return w
	}
	return new(T)
}

// put empties a request and keeps it.
func (p *pool[T]) put(w *T) {
	var empty T
	*w = empty
	p.free.Put(w)
}
