//go:build unix

package session

import (
	"os/signal"
	"syscall"
)

// WatchSize has Resized told when the size changes.
func (t *Tty) WatchSize() (stop func()) {
	signal.Notify(t.Resized, syscall.SIGWINCH)
	return func() { signal.Stop(t.Resized) }
}
