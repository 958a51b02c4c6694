//go:build !linux

package expense

import "time"

func spent() time.Duration { return 0 }
