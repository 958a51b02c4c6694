package fdbpq

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON shows as "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: expected a form like 30s or 1h30m", b)
	}
	*d = Duration(v)
	return nil
}

// MaxDelay bounds delays, as MaxTTL bounds TTLs: it keeps due times far from overflow.
const MaxDelay = 87600 * time.Hour
