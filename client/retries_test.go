package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// setBackoff gives the queue one.
func (w *world) setBackoff(t *testing.T, setting client.Backoff) {
	t.Helper()
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{Backoff: &setting}); err != nil {
		t.Fatal(err)
	}
}

// shown returns an item with its attempts.
func (w *world) shown(t *testing.T, id string) *client.Item {
	t.Helper()
	item, err := w.queue.Get(t.Context(), id, client.WithAttempts())
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// An item is given back for as long as the queue says, or as the caller says, nothing included.
func TestNackUnderABackoff(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.setBackoff(t, `["1h"]`)
	for _, tc := range []struct {
		name string
		nack func(*client.Item) error
		away time.Duration
		why  string
	}{
		{"plain", func(i *client.Item) error { return i.Nack(t.Context()) }, time.Hour, ""},
		{"without delay", func(i *client.Item) error { return i.NackWithDelay(t.Context(), 0) }, 0, ""},
		{"with delay", func(i *client.Item) error { return i.NackWithDelay(t.Context(), 3*time.Hour) }, 3 * time.Hour, ""},
		{"with a reason", func(i *client.Item) error { return i.NackWith(t.Context(), client.NackOptions{Reason: "it is closed"}) }, time.Hour, "it is closed"},
		{"with both", func(i *client.Item) error {
			return i.NackWith(t.Context(), client.NackOptions{Delay: new(time.Duration), Reason: strings.Repeat("€", 1000)})
		}, 0, strings.Repeat("€", 66)},
	} {
		id := w.push(t, "x").ID
		item := w.pop(t, client.Min, client.Lease(time.Minute), client.Holder("w1"))
		if item.Backoff != time.Hour {
			t.Errorf("%s: the item says %s", tc.name, item.Backoff)
		}
		if held := w.shown(t, id); held.Holder != "w1" {
			t.Errorf("%s: held by %q", tc.name, held.Holder)
		}
		if err := tc.nack(item); err != nil {
			t.Fatal(err)
		}
		back := w.shown(t, id)
		if away := time.Until(back.Due); tc.away == 0 && back.State != client.Ready || tc.away > 0 && (away > tc.away || away < tc.away-time.Hour/2) {
			t.Errorf("%s: %s for %s, expected %s", tc.name, back.State, away, tc.away)
		}
		if all := back.LastAttempts; back.Attempts != 1 || len(all) != 1 || all[0].Reason != tc.why || all[0].Holder != "w1" || all[0].Outcome != "nak" {
			t.Errorf("%s: attempts %+v", tc.name, all)
		}
		if err := w.queue.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

// Revoke ends a lease, and only the lease that is meant.
func TestRevoke(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "x").ID
	item := w.pop(t, client.Min, client.Lease(time.Hour), client.Holder("w1"))
	err := w.queue.Revoke(t.Context(), id, client.RevokeOptions{Fence: item.Fence + 1})
	fails(t, err, err, 400, "")
	var held []string
	for listed, err := range w.queue.List(t.Context(), client.ListOptions{State: client.Leased, Holder: "w1"}) {
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, listed.ID+" "+listed.Holder)
	}
	if fmt.Sprint(held) != fmt.Sprint([]string{id + " w1"}) {
		t.Errorf("w1 holds %q", held)
	}
	if err := w.queue.Revoke(t.Context(), id, client.RevokeOptions{Fence: item.Fence, Delay: new(time.Hour), Reason: "it hangs"}); err != nil {
		t.Fatal(err)
	}
	fails(t, item.Ack(t.Context()), client.ErrLeaseLost, 410, client.ReasonTaken)
	fails(t, w.queue.Revoke(t.Context(), id, client.RevokeOptions{}), client.ErrNotLeased, 409, client.ReasonNotLeased)
	if got := w.shown(t, id); got.State != client.Delayed || len(got.LastAttempts) != 1 || got.LastAttempts[0].Reason != "it hangs" {
		t.Errorf("revoked: %+v", got)
	}
}

// A revocation whose answer was lost is repeated if it names the lease, and then it is known to
// have ended it.
func TestRevokeWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "x").ID
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	c, lost := w.lossy(t)
	if err := c.Queue("jobs").Revoke(t.Context(), id, client.RevokeOptions{Fence: item.Fence}); err != nil {
		t.Error(err)
	}
	if verb := <-lost; verb != "revoke" {
		t.Errorf("the answer to %s was lost", verb)
	}
}

// A consumer leaves the delay of a failed item to a queue with a backoff, unless it has one of
// its own. Attempts say what failed, and who had the item.
func TestConsumeUnderABackoff(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]func(int) time.Duration{"the queue's": nil, "its own": func(int) time.Duration { return 10 * time.Hour }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			w.setBackoff(t, `["2h"]`)
			id := w.push(t, "x").ID
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%s-%d", host, os.Getpid())
			held := make(chan string, 1)
			stop := w.consume(t, func(ctx context.Context, item *client.Item) error {
				shown, err := w.queue.Get(ctx, item.ID)
				if err != nil {
					t.Error(err)
				}
				held <- shown.Holder
				return errors.New("it is closed")
			}, client.ConsumeOptions{Backoff: own})
			if got := <-held; got != want {
				t.Errorf("held by %q, expected %q", got, want)
			}
			w.await(t, "jobs", func(i *client.Info) bool { return i.Delayed == 1 })
			if err := stop(); err != nil {
				t.Error(err)
			}
			back := w.shown(t, id)
			away := map[bool]time.Duration{true: 2 * time.Hour, false: 10 * time.Hour}[own == nil]
			if got := time.Until(back.Due); got > away || got < away-time.Hour {
				t.Errorf("back in %s, expected %s", got, away)
			}
			if all := back.LastAttempts; len(all) != 1 || all[0].Reason != "it is closed" || all[0].Holder != want {
				t.Errorf("attempts %+v", all)
			}
		})
	}
}

// What a consumer did not work on is ready again at once, whatever the queue's backoff says.
func TestConsumeGivesBackWhatItDidNotWorkOn(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.setBackoff(t, `["1h"]`)
	id := w.push(t, "x").ID
	begun := make(chan bool)
	stop := w.consume(t, func(ctx context.Context, item *client.Item) error {
		begun <- true
		<-ctx.Done()
		return ctx.Err()
	}, client.ConsumeOptions{Grace: time.Nanosecond})
	<-begun
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := w.shown(t, id); got.State != client.Ready {
		t.Errorf("the item is %s, expected it ready", got.State)
	}
}
