package settings

import (
	"fmt"
	"time"
)

// silence is how long two nodes must not have heard another one to take it for lost.
type silence time.Duration

const (
	leastSilence = 300 * time.Millisecond
	mostSilence  = 5 * time.Second
)

func (s *silence) Decode(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < leastSilence || d > mostSilence {
		return fmt.Errorf("expected a duration from %s to %s, such as 500ms", leastSilence, mostSilence)
	}
	*s = silence(d)
	return nil
}
