package bridge

import (
	"context"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/protocol"
)

// errStandby ends the waits of pops when the bridge goes on standby.
var errStandby = &failure.Failure{Code: 409, Text: "this bridge leaves the prefix to another one: ask again", Description: protocol.DescriptionShutdown}

// standby pauses the bridge while a rival serves its prefix, and resumes it.
type standby struct {
	receiver *receiver.Receiver
	waits
}

// waits has all requests that wait: for items, and for results.
type waits struct {
	pops  *pops.Waits
	lanes *lanes
}

// close ends all waits. Until open, no request may wait.
func (w waits) close(why error) {
	w.pops.Close(why)
	w.lanes.results.Close(why)
}

func (w waits) open() {
	w.pops.Open()
	w.lanes.results.Open()
}

// The fronts of a bridge: the prefix, and the one that other sites use.
const (
	frontHere = iota
	frontRemote
)

// enter unsubscribes. Requests that have arrived are still served. Waiting pops are
// refused, because new items go to the other bridge now.
func (s *standby) enter(ctx context.Context) error {
	err := s.receiver.Pause(ctx, frontHere)
	s.close(errStandby)
	return err
}

// leave subscribes again.
func (s *standby) leave() error {
	s.open()
	return s.receiver.Resume(frontHere)
}

// enterRemote and leaveRemote do the same for requests of other sites, whose waiting pops go on.
func (s *standby) enterRemote(ctx context.Context) error { return s.receiver.Pause(ctx, frontRemote) }
func (s *standby) leaveRemote() error                    { return s.receiver.Resume(frontRemote) }
