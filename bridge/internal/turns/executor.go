package turns

import "time"

// executor is a goroutine that runs one turn after another, with its buffers.
type executor[R, T any] struct {
	wake   chan struct{} // closed to end it
	turn   turn[R, T]
	runner runner[R, T]

	// Guarded by the lock of the turns.
	role   role
	busy   bool // a transaction is under way
	stuck  bool // for longer than patience
	within bool // its parts do their work
	relief timer
	slow   timer
}

// role is what an executor counts as.
type role uint8

const (
	noTurn role = iota
	ordinaryTurn
	aloneTurn
	slowTurn // an ordinary turn that takes long, so that another one has begun
	roles
)

func newExecutor[R, T any](o *Options[R, T]) *executor[R, T] {
	return &executor[R, T]{wake: make(chan struct{}, 1), turn: turn[R, T]{part: o.Part}, runner: runner[R, T]{options: o, done: make(map[int]int)}}
}

// timer calls the function of its first start.
type timer struct{ *time.Timer }

// start sets the timer, again or for the first time.
func (t *timer) start(d time.Duration, f func()) {
	if t.Timer == nil {
		t.Timer = time.AfterFunc(d, f)
	} else {
		t.Reset(d)
	}
}
