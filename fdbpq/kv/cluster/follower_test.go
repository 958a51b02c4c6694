package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// stubLog is a log that is not there.
type stubLog struct {
	Log
	created int
}

func (l *stubLog) Create(context.Context) error {
	l.created++
	return errors.New("out of reach")
}

// A member that has a copy does not make an empty log in the place of a log that is gone.
func TestFoundWithACopy(t *testing.T) {
	t.Parallel()
	for _, has := range []bool{false, true} {
		log := &stubLog{}
		m := &member{options: Options{Name: "a", Init: true}, peers: peers.New("a", Silence)}
		var follows Log = log
		m.current.Store(&follows)
		copied := &tail{member: m}
		if has {
			copied.head.Entry = 5
		}
		m.self.opened(copied.head)
		if err := (founder{copied}).found(t.Context()); err == nil || errors.Is(err, ErrNoLog) != has || (log.created > 0) == has {
			t.Errorf("with a copy %v: %v, and %d attempts to make a log", has, err, log.created)
		}
	}
}
