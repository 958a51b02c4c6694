package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// What a holder says is kept with its lease, and the next one goes on from there.
func TestReport(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "nine pages").ID
	item := w.pop(t, client.Min, client.Lease(time.Minute))
	if item.Progress != "" || !item.ProgressAt.IsZero() {
		t.Errorf("nobody has said anything: %+v", item)
	}
	before := item.LeaseExpires()
	for _, text := range []string{"1 of 9", `{"page":3}`, strings.Repeat("p", 4096)} {
		if err := item.Report(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		if got, err := w.queue.Get(t.Context(), id); err != nil || got.Progress != text || time.Since(got.ProgressAt) > time.Hour {
			t.Errorf("the item has %q at %s, %v", got.Progress, got.ProgressAt, err)
		}
	}
	if err := item.Report(t.Context(), ""); err != nil || !item.LeaseExpires().After(before) {
		t.Errorf("the lease ends at %s, before at %s, %v", item.LeaseExpires(), before, err)
	}
	err := item.Report(t.Context(), "two\nlines")
	fails(t, err, err, 400, "")
	for l, err := range w.queue.List(t.Context(), client.ListOptions{State: client.Leased, Progress: true}) {
		if err != nil || len(l.Progress) != 4096 || l.ProgressAt.IsZero() {
			t.Errorf("listed %d bytes, %v", len(l.Progress), err)
		}
	}
	if err := item.Nack(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := w.pop(t, client.Min, client.Lease(time.Minute))
	if len(next.Progress) != 4096 {
		t.Errorf("the next holder gets %q", next.Progress)
	}
	if err := item.Report(t.Context(), "late"); !errors.Is(err, client.ErrSettled) {
		t.Errorf("a report behind the end: %v", err)
	}
}

// A caller that asks for the result of an item that goes on gets to know how far it is.
func TestProgressOfAnAwaitedItem(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "nine pages", client.ResultTTL(time.Hour)).ID
	for _, text := range []string{"", "3 of 9"} {
		if text != "" {
			if err := w.pop(t, client.Min, client.Lease(time.Minute)).Report(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		var e *client.Error
		if _, err := w.queue.Result(t.Context(), id); !errors.Is(err, client.ErrNoResultYet) || !errors.As(err, &e) || e.Progress != text || e.ID != id {
			t.Errorf("%v has the progress %q, expected %q", err, e.Progress, text)
		}
	}
}

// A report that has no room extends the lease all the same, and says so: alone and beside others.
func TestDroppedReport(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	report := func(i *client.Item) error { return i.Report(t.Context(), "1 of 9") }
	ended := settles(t, c, "a", report)
	m := d.next(t)
	if string(m.Data) != "+WPI 1 of 9" || len(m.Header) > 0 {
		t.Errorf("sent %q, %v", m.Data, m.Header)
	}
	d.answer(t, m, &nats.Msg{Header: nats.Header{"PQ-Lease-Expires": {"2030-01-02T03:04:05Z"}, "PQ-Note": {"dropped"}}})
	if err := <-ended; !errors.Is(err, client.ErrProgressDropped) {
		t.Errorf("alone: %v", err)
	}
	m, all := settlesTogether(t, d, c, report, report, ack)
	d.answer(t, m, &nats.Msg{Data: []byte("+OK 2030-01-02T03:04:05Z dropped\n+OK 2030-01-02T03:04:05Z\n+OK\n")})
	for i, want := range []error{client.ErrProgressDropped, nil, nil} {
		if err := <-all[i]; !errors.Is(err, want) {
			t.Errorf("%d of some: %v, expected %v", i, err, want)
		}
	}
}
