package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// A listed item can be imported to the place where it stood.
func TestImport(t *testing.T) {
	t.Parallel()
	from, to := start(t), start(t)
	from.push(t, "one", client.Priority(7), client.Header(nats.Header{"Trace": {"a", "b"}}), client.TTL(time.Hour))
	from.push(t, "later", client.Delay(time.Hour))
	item, err := from.queue.Pop(t.Context(), client.Min, client.Lease(time.Minute))
	if err == nil {
		err = item.Nack(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []client.State{client.Ready, client.Delayed} {
		for _, duplicate := range []bool{false, true} {
			for l, err := range from.queue.List(t.Context(), client.ListOptions{State: state, Bodies: true, Page: 1}) {
				if err != nil {
					t.Fatal(err)
				}
				if l.Attempts > 0 {
					l.LastAttempts = from.shown(t, l.ID).LastAttempts
				}
				if l.Fence > 0 {
					l.Fence += 5 // more than its deliveries need
				}
				f, err := to.queue.ImportAsync(t.Context(), &client.Import{
					ID: l.ID, Priority: l.Priority, Payload: l.Body, Header: l.Header, Pushed: l.Pushed, NotBefore: l.Due,
					Expires: l.Expires, Deliveries: l.Deliveries, Fence: l.Fence, Attempts: l.LastAttempts,
					Dead: &client.Death{Reason: "why", At: time.Unix(1_700_000_000, 5).UTC(), Deliveries: 3},
				})
				if err != nil {
					t.Fatal(err)
				}
				if p, err := f.Result(); err != nil || p.ID != l.ID || p.Duplicate != duplicate {
					t.Errorf("imported %+v, %v; expected duplicate %v", p, err, duplicate)
				}
				l.Cause = "why" // no attempt gives a reason
				l.Dead = &client.Death{Reason: "why", At: time.Unix(1_700_000_000, 5).UTC(), Deliveries: 3}
				for have, err := range to.queue.List(t.Context(), client.ListOptions{State: state, Bodies: true, Attempts: true}) {
					if diff := cmp.Diff(l, have, cmpopts.EquateApproxTime(time.Minute)); diff != "" || err != nil {
						t.Errorf("-there +here %v\n%s", err, diff)
					}
				}
			}
		}
	}
	f, err := to.queue.ImportAsync(t.Context(), &client.Import{ID: item.ID, Priority: 7, Payload: []byte("another")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Result()
	fails(t, err, client.ErrOccupied, 409, client.ReasonOccupied)
	if errors.Is(err, client.ErrBusy) {
		t.Errorf("%v is client.ErrBusy, expected not: trying again does not help", err)
	}
}
