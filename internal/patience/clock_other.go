//go:build !linux

package patience

import "time"

// clock is not known, and neither is what it is for: how busy the machine is.
func clock() time.Duration { return 0 }
