package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// sweeperTerm is how long a process stays the only sweeper after a sweep. When it
// dies, another one takes over after the term.
const sweeperTerm = 2 * time.Second

// becomeSweeper makes this process the sweeper. While another process is, it returns
// the end of that one's term.
func (w *sweep) becomeSweeper() (until int64, err error) {
	key := row(spaceSweeper)
	value, err := w.tx.Get(key)
	if err != nil {
		return 0, err
	}
	own := string(w.store.sessions.process[:])
	if value != nil {
		process, rest, err := tuple.ConsumeBytes(value)
		if err != nil {
			return 0, fmt.Errorf("damaged sweeper row: %w", err)
		}
		if until, _, err = tuple.ConsumeInt(rest); err != nil {
			return 0, fmt.Errorf("damaged sweeper row: %w", err)
		}
		if string(process) != own && until > w.now {
			return until, nil
		}
	}
	w.tx.Set(key, tuple.AppendInt(tuple.AppendBytes(nil, []byte(own)), w.now+int64(sweeperTerm)))
	return 0, nil
}
