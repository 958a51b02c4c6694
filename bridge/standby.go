package bridge

import (
	"context"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/protocol"
)

// errStandby ends the waits of pops when the bridge goes on standby.
var errStandby = &failure.Failure{Code: 409, Text: "this bridge leaves the prefix to another one: ask again", Description: protocol.DescriptionShutdown}

// standby pauses the bridge while a rival serves its prefix, and resumes it.
type standby struct {
	receiver *receiver.Receiver
	waiting  *waiting.Pops[*pop]
}

// enter unsubscribes. Requests that have arrived are still served. Waiting pops are
// refused, because new items go to the other bridge now.
func (s *standby) enter(ctx context.Context) error {
	err := s.receiver.Pause(ctx)
	s.waiting.Close(errStandby)
	return err
}

// leave subscribes again.
func (s *standby) leave() error {
	s.waiting.Open()
	return s.receiver.Resume()
}
