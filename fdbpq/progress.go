package fdbpq

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// A holder may say how far it is. The text replaces the one before in the row that the extension of the lease writes anyway, so it costs
// neither a row nor a read, and it outlives the lease: the next holder goes on from there. It goes where the attempts go, to the dead
// letters and back by a requeue.

// MaxProgress bounds the bytes of what a holder says of how far it is.
const MaxProgress = 4 << 10

// ErrProgress: a holder says what is not allowed.
var ErrProgress = fmt.Errorf("progress: expected 1 to %d bytes of UTF-8 without control characters", MaxProgress)

// CheckProgress returns an error unless a holder may say so.
func CheckProgress(text string) error {
	if text == "" || len(text) > MaxProgress || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return ErrProgress
	}
	return nil
}

// setProgress has an item remember what its holder has said, and when. A zero time is not known.
func setProgress(past *layout.Past, text string, at time.Time) {
	past.Progress, past.Reported = text, 0
	if text != "" && !at.IsZero() {
		past.Reported = at.UnixNano()
	}
}

// reportedAt is when the holder of an item has said how far it is, by the wall clock of the process that has heard it.
func reportedAt(past *layout.Past) time.Time {
	if past.Reported == 0 {
		return time.Time{}
	}
	return time.Unix(0, past.Reported)
}

// progress has items remember how far their holders are.
type progress struct{ *queueRows }

// replace replaces the text of an item, and reports whether it drops the new one instead: a store that must not grow, and a queue or an
// owner with as many bytes as it may have, take no longer ones.
func (p progress) replace(l *layout.Item, text string, now int64) (dropped bool, err error) {
	grown := *l
	setProgress(&grown.Past, text, p.store.Display(now))
	if len(text) > len(l.Progress) {
		if p.store.room.full() != nil {
			return true, nil
		}
		if grown.WithOverhead() > l.Overhead {
			if dropped, err = p.capacity.crowded(); dropped || err != nil {
				return dropped, err
			}
		}
	}
	*l = grown
	return false, nil
}
