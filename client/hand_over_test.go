package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// agree has the queue of leases agree to hand-overs to another queue, and returns that.
func (w *world) agree(t *testing.T, to string) *client.Queue {
	t.Helper()
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{HandOver: &to}); err != nil {
		t.Fatal(err)
	}
	return w.client.Queue(to)
}

// An item that is handed over is gone, and the handle is settled.
func TestHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	mails := w.agree(t, "mails")
	w.push(t, "a job")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	pushed, err := item.HandOver(t.Context(), mails, []byte("a mail"), client.Priority(7))
	if err != nil || pushed.ID == "" || pushed.Priority != 7 || pushed.Duplicate {
		t.Fatalf("%+v, %v", pushed, err)
	}
	if err := item.Ack(t.Context()); !errors.Is(err, client.ErrSettled) {
		t.Errorf("an acknowledgement after it: %v", err)
	}
	if _, err := item.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrSettled) {
		t.Errorf("a second hand-over: %v", err)
	}
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonEmpty)
	mail, err := mails.Pop(t.Context(), client.Min)
	if err != nil || string(mail.Payload) != "a mail" || len(mail.Header) > 0 {
		t.Errorf("%+v, %v", mail, err)
	}
	if _, err := mail.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrNotLeased) {
		t.Errorf("a hand-over without a lease: %v", err)
	}
}

// After a refusal the item can still be settled, unless its lease is lost.
func TestRefusedHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	mails := w.client.Queue("mails")
	w.push(t, "a job")
	item := w.pop(t, client.Min, client.Lease(time.Hour))
	var e *client.Error
	if _, err := item.HandOver(t.Context(), mails, nil); !errors.As(err, &e) || e.Code != 403 {
		t.Errorf("without consent: %v", err)
	}
	w.agree(t, "mails")
	same, err := w.client.Attach(item.AckSubject())
	if err != nil {
		t.Fatal(err)
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Errorf("an acknowledgement after a refusal: %v", err)
	}
	_, err = same.HandOver(t.Context(), mails, nil)
	fails(t, err, client.ErrLeaseLost, 410, client.ReasonGone)
	if _, err := same.HandOver(t.Context(), mails, nil); !errors.Is(err, client.ErrSettled) {
		t.Errorf("after the lease was lost: %v", err)
	}
	_, err = mails.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonUnknown)
}

// A hand-over whose answer is lost is repeated, and takes effect once.
func TestLostAnswerToAHandOver(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.agree(t, "mails")
	w.push(t, "a job")
	c, losses := w.lossy(t)
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Repeatable())
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := item.HandOver(t.Context(), c.Queue("mails"), []byte("a mail"))
	if err != nil || pushed.Duplicate {
		t.Errorf("%+v, %v", pushed, err)
	}
	for _, verb := range []string{"pop", "push"} {
		if got := <-losses; got != verb {
			t.Errorf("the answer to a %s was lost, expected one to a %s", got, verb)
		}
	}
	if info, err := w.client.Queue("mails").Info(t.Context()); err != nil || info.Ready != 1 {
		t.Errorf("%+v, %v, expected one item", info, err)
	}
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonEmpty)
}
