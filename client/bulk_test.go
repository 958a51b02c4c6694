package client_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// die gives up items of the queue.
func (w *world) die(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		w.push(t, fmt.Sprint("item ", i))
		item := w.pop(t, client.Min, client.Lease(time.Minute), client.Holder("w1"))
		if err := item.Terminate(t.Context(), "timeout of it"); err != nil {
			t.Fatal(err)
		}
	}
}

func bulk(t *testing.T, q *client.Queue, b client.Bulk) client.BulkResult {
	t.Helper()
	result, err := q.Bulk(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A bulk operation goes through all pages.
func TestBulk(t *testing.T) {
	t.Parallel()
	w := start(t)
	dead := w.client.Queue(w.queue.Name() + "-dead")
	w.die(t, 5)
	requeue := client.Bulk{Verb: client.BulkRequeue, Where: client.BulkWhere{Reason: "timeout*"}, Page: 2}
	var pages []client.BulkResult
	requeue.Progress = func(r client.BulkResult) {
		r.Next = ""
		pages = append(pages, r)
	}
	dry := requeue
	dry.DryRun = true
	if got := bulk(t, dead, dry); got != (client.BulkResult{Done: 5, Looked: 5}) {
		t.Errorf("a dry run: %+v", got)
	}
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{MaxLength: new(int64(4))}); err != nil {
		t.Fatal(err)
	}
	pages = nil
	full := bulk(t, dead, requeue)
	if full.Done != 4 || !full.Full || full.Next == "" || len(pages) < 3 || pages[len(pages)-1] != (client.BulkResult{Done: 4, Looked: 5, Full: true}) {
		t.Errorf("a queue that is full: %+v, by pages %+v", full, pages)
	}
	var before client.BulkResult
	for _, page := range pages[:len(pages)-1] { // after a conflict with a sweep a page is shorter
		if more := page.Done - before.Done; more < 1 || more > 2 || page.Looked != page.Done || page.Full {
			t.Errorf("pages %+v", pages)
		}
		before = page
	}
	if got := bulk(t, w.queue, client.Bulk{Verb: client.BulkMove, All: true, Priority: 9}); got.Done != 4 {
		t.Errorf("moved: %+v", got)
	}
	requeue.After = full.Next
	requeue.Spread = time.Hour
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{MaxLength: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if got := bulk(t, dead, requeue); got.Done != 1 || got.Next != "" || got.Full {
		t.Errorf("the rest: %+v", got)
	}
	if item := w.pop(t, client.Min, client.Lease(time.Minute), client.Holder("w2")); item.Priority != 9 {
		t.Errorf("the item has priority %d", item.Priority)
	}
	delay := time.Hour
	if got := bulk(t, w.queue, client.Bulk{Verb: client.BulkRevoke, Where: client.BulkWhere{Holder: "w2"}, Delay: &delay, Reason: "it hangs"}); got.Done != 1 {
		t.Errorf("revoked: %+v", got)
	}
	if got := bulk(t, w.queue, client.Bulk{Verb: client.BulkRemove, Where: client.BulkWhere{State: client.Delayed}}); got.Done != 2 {
		t.Errorf("removed: %+v", got)
	}
	var e *client.Error
	if _, err := w.queue.Bulk(t.Context(), client.Bulk{Verb: client.BulkRemove}); !errors.As(err, &e) || e.Code != 400 {
		t.Errorf("without where: %v", err)
	}
	if result, err := dead.Bulk(t.Context(), client.Bulk{Verb: client.BulkRequeue, All: true, To: "victim"}); !errors.As(err, &e) ||
		e.Code != 403 || result != (client.BulkResult{}) {
		t.Errorf("to another queue: %+v, %v", result, err)
	}
}

// Pages without an answer are repeated, and do nothing twice.
func TestBulkWithLostAnswers(t *testing.T) {
	t.Parallel()
	w := start(t)
	const items = 7
	w.die(t, items)
	var asked atomic.Int64
	c := w.losing(t, func(string) bool { return asked.Add(1)%2 == 0 }, func(string) {})
	got := bulk(t, c.Queue(w.queue.Name()+"-dead"), client.Bulk{Verb: client.BulkRequeue, All: true, Page: 2})
	if !got.AtLeast || got.Done >= items || got.Next != "" {
		t.Errorf("%+v", got)
	}
	info, err := w.queue.Info(t.Context())
	if err != nil || info.Ready != items {
		t.Errorf("%d items are there, %v", info.Ready, err)
	}
}
