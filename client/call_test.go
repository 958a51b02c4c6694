package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// An answer that is there counts, whatever else has happened: it says what was done, and without it the result would be
// unknown.
func TestAnswerThatIsThereCounts(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const rounds = 200 // a select takes any case that is ready, so one round proves nothing
	for name, c := range map[string]struct {
		ctx  context.Context
		lost bool
		wait time.Duration
		err  error // without an answer
	}{
		"the context has ended":   {ended, false, time.Hour, context.Canceled},
		"the connection was lost": {t.Context(), true, time.Hour, nil},
		"the time is up":          {t.Context(), false, 0, nil},
	} {
		answers, lost := make(chan *nats.Msg, 1), make(chan struct{})
		if c.lost {
			close(lost)
		}
		if m, err := await(c.ctx, answers, lost, c.wait); m != nil || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v without an answer; expected %v", name, m, err, c.err)
		}
		for round := range rounds {
			answer := new(nats.Msg)
			answers <- answer
			if m, err := await(c.ctx, answers, lost, c.wait); m != answer || err != nil {
				t.Errorf("%s, round %d: %v, %v; expected the answer", name, round, m, err)
				break
			}
		}
	}
}
