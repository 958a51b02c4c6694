package session

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// durationValue is a flag for a duration that may have days. pflag's own type has no days,
// and no message about what was expected.
type durationValue time.Duration

func (d *durationValue) String() string {
	if *d == 0 {
		return "" // help shows no default then
	}
	return show.Limit(time.Duration(*d))
}

func (d *durationValue) Set(text string) error {
	parsed, err := ParseDuration(text)
	*d = durationValue(parsed)
	return err
}

func (d *durationValue) Type() string { return "duration" }

func DurationVar(f *pflag.FlagSet, p *time.Duration, name, shorthand, usage string) {
	f.VarP((*durationValue)(p), name, shorthand, usage)
}
