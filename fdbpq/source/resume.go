package source

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Resume says with which message a source goes on. At most one field is set.
type Resume struct {
	FromSeq  uint64
	FromTime *time.Time
	Skip     bool // pass over the poisoned message
	Accept   bool // take the stream as it is
}

// Resume ends the pause of a source, and its stop if from says how to go on.
func (s *Sources) Resume(tx kv.Tx, q fdbpq.Queue, name string, from Resume) (Source, error) {
	return s.change(tx, q, name, func(found *Source) error { return found.resume(from) })
}

func (s *Source) resume(from Resume) error {
	p := &s.Position
	stop := p.Stop
	takes := s.Config.Mode == ModeTake
	switch {
	case s.Config.OfLink() && (from.FromSeq > 0 || from.FromTime != nil):
		return &Error{"it is of a link: what was taken is not in the other queue; expected skip, accept or nothing"}
	case takes && (from.FromSeq > 0 || from.FromTime != nil):
		return &Error{"the mode is take: what was acknowledged is not in the stream; expected skip, accept or nothing"}
	case from.FromSeq > 0:
		p.to(from.FromSeq - 1)
		p.From = ""
		if p.Created == 0 {
			p.From = fromSeq
		}
	case from.FromTime != nil:
		p.to(0)
		p.Created, p.From = 0, from.FromTime.UTC().Format(time.RFC3339Nano)
	case from.Skip && stop.Reason != StopPoisoned:
		return &Error{"there is no poisoned message to skip"}
	case from.Skip:
		p.skip()
	case from.Accept:
		p.accept(s.Config.Mode)
	case stop.Reason != "":
		return &Error{"it has stopped, " + string(stop.Reason) + ": expected from_seq, from_time, skip or accept"}
	}
	s.Config.Paused, p.Stop, p.Blocked = false, Stop{}, 0
	return nil
}
