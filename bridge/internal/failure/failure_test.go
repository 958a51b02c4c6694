package failure_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// Each error has the status that the protocol says, however it is wrapped. Only
// outages concern all requests.
func TestExplain(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("%w: %w", kv.ErrUnavailable, syscall.ENOSPC)
	for _, tc := range []struct {
		err    error
		code   int
		reason protocol.Reason
		outage bool
	}{
		{failure.Newf(418, "%d", 1), 418, "", false},
		{&fdbpq.LostError{Reason: fdbpq.LostGone}, 410, protocol.Reason(fdbpq.LostGone), false},
		{fdbpq.ErrOccupied, 409, protocol.ReasonOccupied, false},
		{fdbpq.ErrPopIDReused, 400, "", false},
		{fdbpq.ErrTime, 400, "", false},
		{fdbpq.ErrMsgID, 400, "", false},
		{fdbpq.ErrWeight, 400, "", false},
		{fdbpq.ErrLeaseRequired, 409, protocol.ReasonLeaseRequired, false},
		{fdbpq.ErrOnlyMin, 409, protocol.ReasonOnlyMin, false},
		{fdbpq.ErrPlace, 400, "", false},
		{&fdbpq.ConfigError{}, 400, "", false},
		{fdbpq.ErrNoQueue, 403, "", false},
		{fdbpq.ErrNoDeadLetterQueue, 403, "", false},
		{fdbpq.ErrFull, 429, protocol.ReasonFull, false},
		{fdbpq.ErrNoRoom, 429, protocol.ReasonStoreFull, false},
		{fdbpq.ErrRemembered, 429, protocol.ReasonRemembered, false},
		{fdbpq.ErrResults, 429, protocol.ReasonResults, false},
		{fdbpq.ErrContent, 413, "", false},
		{kv.ErrTooLarge, 413, "", false},
		{kv.ErrUnknown, 504, "", true},
		{kv.ErrDamaged, 506, "", false},
		{full, 503, "", true},
		{kv.ErrUnavailable, 503, "", true},
		{kv.ErrClosed, 503, "", true},
		{context.DeadlineExceeded, 503, "", true},
		{context.Canceled, 503, "", true},
		{errors.New("broken"), 500, "", false},
	} {
		for _, err := range []error{tc.err, fmt.Errorf("while testing: %w", tc.err)} {
			f := failure.Explain(err)
			if f.Code != tc.code || f.Reason != tc.reason || f.Text == "" {
				t.Errorf("%v: %+v", err, f)
			}
			if got := failure.IsOutage(err); got != tc.outage {
				t.Errorf("%v is an outage: %t", err, got)
			}
		}
	}
	if f := failure.Explain(full); !strings.Contains(f.Text, "disk is full") {
		t.Errorf("a full disk: %q", f.Text)
	}
}

// A missing queue and a missing item have a description of their own; an empty queue
// has the one that clients know.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	for f, want := range map[*failure.Failure]string{
		failure.NoQueue("jobs"):                          protocol.DescriptionNotFound,
		failure.NoItem("jobs", "x"):                      protocol.DescriptionNotFound,
		failure.Nothing("jobs", fdbpq.ReasonEmpty):       protocol.Description(404),
		failure.Nothing("jobs", fdbpq.ReasonPaused):      protocol.Description(404),
		failure.BadRequest(errors.New("expected a %-y")): protocol.Description(400),
		failure.Explain(fdbpq.ErrOccupied):               protocol.DescriptionOccupied,
	} {
		if got := f.Describe(); got != want {
			t.Errorf("%+v: %q, expected %q", f, got, want)
		}
	}
}

// The reason why there is no item is in the answer, as a word and in the text.
func TestReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[fdbpq.Reason]string{
		fdbpq.ReasonUnknown: "no queue jobs", fdbpq.ReasonPaused: "paused", fdbpq.ReasonLeased: "some are leased",
		fdbpq.ReasonRate: "its rate", fdbpq.ReasonBlocked: "wait for their keys",
		fdbpq.ReasonDelayed: "some are delayed", fdbpq.ReasonEmpty: "nothing there",
	} {
		if f := failure.Nothing("jobs", reason); f.Code != 404 || f.Reason != protocol.Reason(reason) || !strings.Contains(f.Text, "jobs") || !strings.Contains(f.Text, want) {
			t.Errorf("%s: %+v, expected %q", reason, f, want)
		}
	}
	found := &fdbpq.Popped{Reason: fdbpq.ReasonBand, Ready: 40}
	for band, want := range map[fdbpq.Band]string{
		{Low: math.MinInt64, High: 10}: "..10, 40 outside it", {Low: -3, High: math.MaxInt64}: "-3.., 40 outside it", {Low: 1, High: 5}: "1..5, 40 outside it",
	} {
		if f := failure.NothingIn("jobs", band, found); f.Code != 404 || f.Reason != protocol.ReasonBand || f.Text != "queue jobs: none is ready in the band "+want {
			t.Errorf("%+v, expected %q", f, want)
		}
	}
	if f := failure.NoItem("jobs", "x"); f.Code != 404 || f.Reason != protocol.ReasonUnknown || f.Text != "queue jobs has no item x" {
		t.Errorf("%+v", f)
	}
}

// What a client sent is quoted in ASCII, and so are texts in headers; neither is
// longer than an answer should be.
func TestTexts(t *testing.T) {
	t.Parallel()
	if got := failure.Quote("a\"\n\u00e9"); got != `"a\"\n\u00e9"` {
		t.Error(got)
	}
	if got := failure.Quote(strings.Repeat("x", 1000)); len(got) > 100 || !strings.HasSuffix(got, `"...`) {
		t.Error(got)
	}
	if got := failure.HeaderText("a\r\nb\u00e9\x7f"); got != "a??b??" {
		t.Error(got)
	}
	if got := failure.HeaderText(strings.Repeat("x", 5000)); len(got) != 803 {
		t.Error(len(got))
	}
}
