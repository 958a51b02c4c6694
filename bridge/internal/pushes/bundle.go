package pushes

import (
	"errors"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// A push may be a bundle: many items in one message, all of which are added, or none. The
// items of a bundle that is refused must leave nothing behind, so the bundle ends its
// transaction, and the other pushes run again without it. A bundle whose items are pushed
// each on its own ([eachPush]) is many pushes.

// bundleError is why a bundle is refused, for the reason of one of its items. The other
// requests of its transaction have nothing to do with it.
type bundleError struct{ of *failure.Failure }

func (e *bundleError) Error() string { return e.of.Text }
func (e *bundleError) Unwrap() error { return e.of }

// refusedBundle returns the index of the first push that is a bundle with a refused item, and the reason.
func refusedBundle(requests []desk.Work, pushed []fdbpq.Pushed) (int, error) {
	for i, w := range requests {
		r := w.(*push)
		n := r.Count()
		if r.bundle != nil {
			for k := range pushed[:n] {
				if err := pushed[k].Err; err != nil {
					return i, &bundleError{failure.Explain(err).OfItem(k)}
				}
			}
		}
		pushed = pushed[n:]
	}
	return len(requests), nil
}

// ofBundle reports whether an error concerns one bundle and no other push.
func ofBundle(err error) bool {
	var refused *bundleError
	return errors.As(err, &refused)
}
