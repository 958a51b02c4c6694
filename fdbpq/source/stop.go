package source

import "github.com/pqbridge/pqbridge/internal/reason"

// Stop is why a source waits for a person.
type Stop struct {
	Reason StopReason // "": it does not
	Text   string
	Since  int64 // wall clock
	At     Mark  // the poisoned message; or the last one of the stream, by its Seq
}

// Text is a text about a source as it is kept: short, and on one line. Remotes have a part in it.
func Text(s string) string { return reason.Text(s, keptText) }

// StopReason is a kind of stop.
type StopReason string

const (
	StopReplaced StopReason = "stream_replaced"
	StopBehind   StopReason = "stream_behind"
	StopDiverged StopReason = "stream_diverged"
	StopConsumer StopReason = "consumer_changed"
	StopPoisoned StopReason = "poisoned"

	StopGiverBehind   StopReason = "giver_behind"
	StopTakerBehind   StopReason = "taker_behind"
	StopGiverReplaced StopReason = "giver_replaced"
)
