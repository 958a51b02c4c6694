package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// A caller asks what became of its items, and hears why there is no answer.
func TestResult(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	one := w.push(t, "work", client.ResultTTL(time.Hour))
	_, err := w.queue.Result(ctx, one.ID)
	fails(t, err, err, 404, client.ReasonPending)
	if errors.Is(err, client.ErrNotFound) {
		t.Errorf("an item that has not ended is found: %v", err)
	}
	item := w.pop(t, client.Min, client.Lease(time.Minute))
	answer, err := w.nc.RequestMsg(&nats.Msg{Subject: item.AckSubject(), Data: []byte("+ACK painted")}, 10*time.Second)
	if err != nil || answer.Header.Get("PQ-Result") != protocol.ResultKept {
		t.Fatalf("the settlement is answered by %v, %v", answer, err)
	}
	r, err := w.queue.Result(ctx, one.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != protocol.FinishDone || string(r.Body) != "painted" || r.Deliveries != 1 || time.Since(r.FinishedAt) > time.Minute || r.Dropped {
		t.Errorf("the result is %+v", r)
	}

	two := w.push(t, "bad", client.ResultTTL(time.Hour))
	item = w.pop(t, client.Min, client.Lease(time.Minute))
	if err := item.Terminate(ctx, "no paint"); err != nil {
		t.Fatal(err)
	}
	if r, err = w.queue.Result(ctx, two.ID); err != nil || r.Outcome != protocol.FinishDead || r.Reason != "no paint" || r.DeadLetter != w.queue.Name()+"-dead" || r.NextID == "" {
		t.Errorf("the result of a dead item is %+v, %v", r, err)
	}

	silent := w.push(t, "silent")
	_, err = w.queue.Result(ctx, silent.ID)
	fails(t, err, err, 409, client.ReasonUnkept)
	if err := w.queue.Remove(ctx, silent.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.queue.Result(ctx, silent.ID)
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	if _, err := w.queue.Result(ctx, "no id"); errors.Is(err, client.ErrNotFound) || err == nil {
		t.Errorf("what is no id: %v", err)
	}
}
