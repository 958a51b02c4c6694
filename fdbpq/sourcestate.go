package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// Lag is how many sequences of the stream are behind the position, as the runner has seen it; of a link, how many items are ready at the other side.
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
	case SourceStopped:
		return s.Position.Stop.Since
	case SourceBlocked:
		return s.Position.Blocked
	case SourceFails:
		return s.Run.Since
	}
	return 0
}

func (s *Source) state(now int64) SourceState {
	switch {
	case s.Position.Stop.Reason != "":
		return SourceStopped
	case s.Config.Paused:
		return SourcePaused
	case s.Run.Until <= now:
		return SourceNoRunner
	case s.Run.Problem != "":
		return SourceFails
	case s.Position.Blocked != 0:
		return SourceBlocked
	case s.Position.Created == 0:
		return SourceStarts
	}
	return SourceRuns
}

// state sets what a source does now.
func (s sources) state(r kv.Reader, source *Source) error {
	now, err := s.inside.Clock.At(r)
	if err == nil {
		source.State = source.state(now)
	}
	return err
}

// sources is what a store knows of the sources of its queues.
type sources struct{ *Store }
