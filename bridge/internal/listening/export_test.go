package listening

import "time"

// SetNow sets the clock by which kinds are forgotten.
func (s *Sight) SetNow(now func() time.Time) { s.now = now }
