package peers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Two rivals may meet although neither would have started beside the other: when separated servers connect again,
// or one of the bridges connects to another server. Then the bridge that started later goes on standby: it leaves
// the requests to the other, reports that, and serves again when the other has gone.

// The pauses between searches for rivals: short after a reconnect, when others may
// reconnect too, and longer from search to search.
const (
	firstLook = time.Second
	lastLook  = 30 * time.Second
)

// missingLooks is how many searches in a row have to miss the rival before a bridge serves again, because the rival
// may be slow to answer. One is enough if the server reports that there are no other bridges.
const missingLooks = 2

// Service is the service that goes on standby.
type Service struct {
	Pause  func(context.Context) error // takes no more requests
	Resume func() error                // takes requests again
}

// Standby looks for rivals while a bridge serves.
type Standby struct {
	rivals  *Rivals
	service Service
	log     *slog.Logger
	warned  map[string]bool // ids of rivals that have been logged
	missing int             // looks in a row that did not find the rival
	cancel  context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	reason error // why the bridge is on standby
}

// NewStandby returns the standby of a service. It looks for no rivals yet.
func NewStandby(rivals *Rivals, service Service, log *slog.Logger) *Standby {
	return &Standby{rivals: rivals, service: service, log: log, warned: make(map[string]bool)}
}

// Start looks for rivals until Stop. A bridge whose store can be shared is never
// on standby, and does not look.
func (s *Standby) Start() {
	if !s.rivals.self.exclusive() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done = cancel, make(chan struct{})
	nc := s.rivals.nc
	connected := nc.StatusChanged(nats.CONNECTED)
	go func() {
		defer close(s.done)
		defer nc.RemoveStatusListener(connected)
		pause := firstLook
		for {
			next := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-connected:
				pause = firstLook
			case <-next.C:
				pause = min(2*pause, lastLook)
			}
			next.Stop()
			if s.look(ctx); s.missing > 0 {
				pause = firstLook
			}
		}
	}()
}

// Begin searches once, before Start: the service begins on standby beside a rival.
func (s *Standby) Begin(ctx context.Context) {
	if s.rivals.self.exclusive() {
		s.look(ctx)
	}
}

// Stop ends the search. A bridge on standby stays there.
func (s *Standby) Stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
}

// Reason returns why the bridge is on standby. It is nil while the bridge serves.
func (s *Standby) Reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

func (s *Standby) set(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = reason
}

// look searches once, and starts or ends standby accordingly. After an error nothing changes until the next search.
func (s *Standby) look(ctx context.Context) {
	if !s.rivals.nc.IsConnected() {
		return
	}
	found, err := s.rivals.find(ctx)
	if err != nil {
		s.log.Debug("looking for other bridges failed", "error", err)
		return
	}
	var reason error
	for _, o := range found.rivals {
		switch problem := s.rivals.describe(o); {
		case s.rivals.self.yieldsTo(o):
			reason = problem
		case !s.warned[o.ID] && len(s.warned) < maxWarned:
			s.warned[o.ID] = true
			s.log.Error("a bridge that started later serves beside this one: expected it on standby", "error", problem)
		}
	}
	standby := s.Reason() != nil
	if reason == nil && standby && !found.alone {
		s.missing++
	} else {
		s.missing = 0
	}
	switch {
	case s.missing > 0 && s.missing < missingLooks:
	case reason != nil && !standby:
		s.set(reason)
		err = s.service.Pause(ctx)
		s.log.Error("on standby until the other bridge ends: taking no requests", "prefix", s.rivals.self.Prefix, "error", reason)
	case reason == nil && standby:
		if err = s.service.Resume(); err == nil {
			s.set(nil)
			s.log.Info("serving again: the other bridge ended", "prefix", s.rivals.self.Prefix)
		}
	}
	if err != nil {
		s.log.Error("changing to or from standby failed", "error", err)
	}
}

// yieldsTo decides which of two rivals goes on standby: the one that started later. A
// bridge whose store can be shared does not look for rivals, so it never does.
func (i Identity) yieldsTo(o Identity) bool {
	if o.Started.Equal(i.Started) {
		return o.ID < i.ID
	}
	return o.Started.Before(i.Started)
}
