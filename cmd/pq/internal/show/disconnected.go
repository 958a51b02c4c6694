package show

import (
	"fmt"
	"time"
)

// Disconnected says since when nobody answers, and from when the numbers are.
func Disconnected(now, since, good time.Time, why string) string {
	if good.IsZero() {
		return fmt.Sprintf(" disconnected since %s, %s: %s", since.Format(time.TimeOnly), Span(now.Sub(since).Round(time.Second)), why)
	}
	return fmt.Sprintf(" disconnected since %s, %s: %s; numbers from %s",
		since.Format(time.TimeOnly), Span(now.Sub(since).Round(time.Second)), why, good.Format(time.TimeOnly))
}
