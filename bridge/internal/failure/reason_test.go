package failure_test

import (
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// limits are the reasons that come from limits of a bridge, and from no error of the core: the tests of those limits get them.
var limits = []protocol.Reason{
	protocol.ReasonBusy, protocol.ReasonQuotaRequests, protocol.ReasonQuotaQueues, protocol.ReasonQuotaItems, protocol.ReasonQuotaBytes,
	protocol.ReasonQuotaWaiting,
}

// Each reason of the table comes from an error of the core, or from a pop that finds nothing, with its code; and no other reason does.
func TestEachReasonComes(t *testing.T) {
	t.Parallel()
	missing := slices.Clone(protocol.Refusals)
	missing = slices.DeleteFunc(missing, func(r protocol.Refusal) bool { return slices.Contains(limits, r.Reason) })
	come := func(f *failure.Failure) {
		t.Helper()
		is := func(r protocol.Refusal) bool { return r.Code == f.Code && r.Reason == f.Reason }
		if !slices.ContainsFunc(protocol.Refusals, is) {
			t.Errorf("%d with the reason %q: protocol/refusals.go has no such row", f.Code, f.Reason)
		}
		missing = slices.DeleteFunc(missing, is)
	}
	for _, err := range []error{
		&fdbpq.LostError{Reason: fdbpq.LostGone}, &fdbpq.LostError{Reason: fdbpq.LostTaken},
		&fdbpq.LostError{Reason: fdbpq.LostReturned}, &fdbpq.LostError{Reason: fdbpq.LostExpired},
		&fdbpq.LostError{Reason: fdbpq.LostCancelled, Why: "not wanted"}, fdbpq.ErrWorked,
		fdbpq.ErrHeld, fdbpq.ErrOccupied, fdbpq.ErrLeased, fdbpq.ErrNotLeased, fdbpq.ErrAnotherKey, fdbpq.ErrLeaseRequired, fdbpq.ErrOnlyMin,
		&fdbpq.PendingError{}, fdbpq.ErrUnkept,
		fdbpq.ErrFull, fdbpq.ErrNoRoom, fdbpq.ErrRemembered, fdbpq.ErrResults, schedule.ErrTooMany, source.ErrTooMany, link.ErrTooMany,
		&link.Error{Refusal: link.GiverBehind}, &link.Error{Refusal: link.TakerBehind},
	} {
		come(failure.Explain(err))
	}
	for _, reason := range []fdbpq.Reason{
		fdbpq.ReasonEmpty, fdbpq.ReasonLeased, fdbpq.ReasonDelayed, fdbpq.ReasonPaused, fdbpq.ReasonRate, fdbpq.ReasonBlocked, fdbpq.ReasonBand, fdbpq.ReasonUnknown,
	} {
		come(failure.Nothing("jobs", reason))
	}
	for _, r := range missing {
		t.Errorf("no error becomes %d with the reason %s: expected a case of Explain in bridge/internal/failure/failure.go, and its error here", r.Code, r.Reason)
	}
}
