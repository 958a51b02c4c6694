package client_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// A wait that is sent again, because it stayed unanswered, is shorter by the time
// that has passed.
func TestWaitThatIsSentAgainIsShorter(t *testing.T) {
	t.Parallel()
	const wait = 100 * time.Millisecond
	asked := make(chan time.Duration, 100)
	c := forgetful(t, func(m *nats.Msg, n int) *nats.Msg {
		var request struct{ Expires time.Duration }
		if err := json.Unmarshal(m.Data, &request); err != nil {
			t.Error(err)
		}
		asked <- request.Expires
		if n == 1 {
			return nil
		}
		return itemAnswer()
	})
	if _, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Wait(wait), client.PopID("id")); err != nil {
		t.Fatal(err)
	}
	if first, second := <-asked, <-asked; first > wait || second != time.Millisecond {
		t.Errorf("waits of %s and %s, expected %s at most and then the least, since all of it has passed", first, second, wait)
	}
}

// The answer to a pop that waits may come later than other requests are repeated: another attempt would bring none sooner,
// and the answer may be a lease.
func TestLateAnswerOfAWait(t *testing.T) {
	t.Parallel()
	asked, late := make(chan *nats.Msg, 1), make(chan struct{})
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		if strings.HasSuffix(m.Subject, ".info") {
			return nil
		}
		asked <- m
		return nil
	})
	c.AskAgainAfter(testenv.Times(100 * time.Millisecond))
	go func() {
		pop := <-asked
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Times(200*time.Millisecond)) // longer than an attempt
		defer cancel()
		if _, err := c.Queue("jobs").Info(ctx); err == nil {
			t.Error("nothing answers, and a call had an answer")
		}
		if err := pop.RespondMsg(itemAnswer()); err != nil {
			t.Error(err)
		}
		close(late)
	}()
	if _, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Wait(time.Millisecond)); err != nil {
		t.Error(err)
	}
	<-late
}

// A pop may wait for longer than one request: that one ends empty, and the next one
// goes on.
func TestWaitBeyondOneRequest(t *testing.T) {
	t.Parallel()
	c := fake(t, func(_ *nats.Msg, n int) *nats.Msg {
		if n == 1 {
			return failure("408", "")
		}
		return itemAnswer()
	})
	if _, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Wait(math.MaxInt64)); err != nil {
		t.Error(err)
	}
}

// A batch that is cut short returns the items that have arrived.
func TestBatchCutShort(t *testing.T) {
	t.Parallel()
	asked := make(chan *nats.Msg, 1)
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		if strings.HasSuffix(m.Subject, ".info") {
			return emptyAnswer()
		}
		asked <- m
		return itemAnswer()
	})
	ctx, cancel := context.WithCancel(t.Context())
	type popped struct {
		items []*client.Item
		err   error
	}
	ended := make(chan popped, 1)
	go func() {
		items, err := c.Queue("jobs").PopBatch(ctx, client.Min, 2)
		ended <- popped{items, err}
	}()
	<-asked
	// This answer comes behind the item.
	if _, err := c.Queue("jobs").Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-ended; got.err != nil || len(got.items) != 1 {
		t.Errorf("%d items, %v: expected the one that had arrived", len(got.items), got.err)
	}
}

// endsWith ends at the moment at which an answer arrives.
type endsWith struct {
	context.Context
	arrival func()
}

func (c endsWith) Done() <-chan struct{} {
	c.arrival()
	ended := make(chan struct{})
	close(ended)
	return ended
}

// An item that has arrived when the context ends is returned. It was popped, so it
// would be lost.
func TestItemArrivesAsContextEnds(t *testing.T) {
	t.Parallel()
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		if strings.HasSuffix(m.Subject, ".info") {
			return emptyAnswer()
		}
		return itemAnswer()
	})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	ends := endsWith{ctx, func() {
		if _, err := c.Queue("jobs").Info(ctx); err != nil { // its answer comes behind the item
			t.Error(err)
		}
	}}
	for range 20 { // which of two events a select takes is random
		if _, err := c.Queue("jobs").Pop(ends, client.Min); err != nil {
			t.Fatal(err)
		}
	}
}

// Leased items that answer a request in vain are given back: items that it has not
// looked at when it ends, and items that come later.
func TestAnswersInVain(t *testing.T) {
	t.Parallel()
	returned := make(chan string, 10)
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		returned <- m.Subject + " " + string(m.Data)
		return nil
	})
	leased := func(token string) *nats.Msg {
		return &nats.Msg{Reply: "pq.jobs.ack.c." + token, Header: nats.Header{"PQ-Id": {"i"}}}
	}
	c.AnswerInVain(leased("read"), leased("unread"), leased("late"))
	c.AnswerInVain(leased("read"), &nats.Msg{Reply: "pq.jobs.ack.c.none"}, leased("last")) // the second one is no item
	for _, token := range []string{"unread", "late", "last"} {
		want := "pq.jobs.ack.c." + token + " +BACK"
		select {
		case got := <-returned:
			if got != want {
				t.Errorf("published %s, expected %s", got, want)
			}
		case <-testenv.Late():
			t.Fatalf("published nothing, expected %s", want)
		}
	}
}
