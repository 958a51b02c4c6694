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
	waiting  *pops.Waits
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
	s.waiting.Close(errStandby)
	return err
}

// leave subscribes again.
func (s *standby) leave() error {
	s.waiting.Open()
	return s.receiver.Resume(frontHere)
}

// enterRemote and leaveRemote do the same for requests of other sites, whose waiting pops go on.
func (s *standby) enterRemote(ctx context.Context) error { return s.receiver.Pause(ctx, frontRemote) }
func (s *standby) leaveRemote() error                    { return s.receiver.Resume(frontRemote) }
