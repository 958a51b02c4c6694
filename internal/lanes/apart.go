package lanes

import (
	"sync/atomic"
	"time"
)

// apartFor is how long calls go alone after a bridge that does not know their bundles: others may be of an earlier version, too.
const apartFor = time.Minute

// Apart says until when calls go alone.
type Apart struct{ until atomic.Pointer[time.Time] }

// Begin has calls go alone from now on, for a time.
func (a *Apart) Begin() { a.until.Store(new(time.Now().Add(apartFor))) }

// Lasts reports whether calls go alone.
func (a *Apart) Lasts() bool {
	until := a.until.Load()
	return until != nil && time.Now().Before(*until)
}
