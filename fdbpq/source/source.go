package source

import "time"

// Source is a source as it stands.
type Source struct {
	Queue, Name string
	Born        int64 // of the queue that it feeds: a later queue of the same name has another one
	Config      Config
	Position    Position
	Run         Run
	State       State
}

// Lag is how many sequences of the stream are behind the position, as the runner has seen it; of a link,
// how many items are ready at the other side.
func (s *Source) Lag() uint64 {
	if s.Config.OfLink() {
		return s.Run.Last
	}
	if s.Run.Last < s.Position.Seq {
		return 0
	}
	return s.Run.Last - s.Position.Seq
}

// Since is the wall clock since which the source stands; 0: it does not, or that is not known.
func (s *Source) Since() int64 {
	switch s.State {
	case StateStopped:
		return s.Position.Stop.Since
	case StateBlocked:
		return s.Position.Blocked
	case StateFailing:
		return s.Run.Since
	}
	return 0
}

// StartsAt is how Seq is found at the first contact with the stream.
func (s *Source) StartsAt() Start {
	switch at, err := time.Parse(time.RFC3339Nano, s.Position.From); {
	case s.Position.From == fromSeq:
		return Start{Seq: s.Position.Seq + 1}
	case s.Position.From == StartFirst:
		return Start{Word: StartFirst}
	case err == nil:
		return Start{Time: &at}
	}
	return s.Config.Start
}

func (s *Source) state(now int64) State {
	switch {
	case s.Position.Stop.Reason != "":
		return StateStopped
	case s.Config.Paused:
		return StatePaused
	case s.Run.Until <= now:
		return StateNoRunner
	case s.Run.Problem != "":
		return StateFailing
	case s.Position.Blocked != 0:
		return StateBlocked
	case s.Position.Created == 0:
		return StateStarting
	}
	return StateRunning
}
