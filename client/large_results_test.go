package client_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Results as large as a message may be come at once, beside pops: each is kept, and the pops go on.
func TestLargeResults(t *testing.T) {
	nightly.Only(t, "TestManyResults has small ones, and bridge the weight of large ones")
	t.Parallel()
	const n, size = 512, 1_000_000
	w := start(t, client.Timeout(testenv.Most))
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{ResultBytes: new(int64(1 << 30))}); err != nil {
		t.Fatal(err)
	}
	asks := client.NewItem{Options: []client.PushOption{client.ResultTTL(time.Hour)}}
	var items []*client.Item
	for range n {
		if _, err := w.queue.PushMany(t.Context(), asks); err != nil {
			t.Fatal(err)
		}
		items = append(items, w.pop(t, client.Min, client.Lease(time.Hour)))
	}
	body := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%04d", i)), size/4) }
	ctx, stop := context.WithCancel(t.Context())
	pops := make(chan int, 1)
	go func() {
		done := 0
		for ; ctx.Err() == nil; done++ {
			_, err := w.queue.Push(ctx, []byte("beside"))
			if err == nil {
				_, err = w.queue.Pop(ctx, client.Min)
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("beside: %v", err)
				break
			}
		}
		pops <- done
	}()
	var all sync.WaitGroup
	room := make(chan bool, 32) // more bytes at once would be overload
	for i, item := range items {
		room <- true
		all.Go(func() {
			defer func() { <-room }()
			if err := item.AckWith(t.Context(), body(i)); err != nil {
				t.Errorf("result %d: %v", i, err)
			}
		})
	}
	all.Wait()
	stop()
	if done := <-pops; done < 1 { // one waits for the bytes that are under way, which takes ten times as long with the race detector
		t.Errorf("%d items were pushed and popped beside %d results", done, n)
	} else {
		t.Logf("%d items were pushed and popped beside %d results", done, n)
	}
	for i, item := range items {
		if r, err := w.queue.Result(t.Context(), item.ID); err != nil || r.Dropped || !bytes.Equal(r.Body, body(i)) {
			t.Fatalf("result %d: %v, %d bytes, dropped %t", i, err, len(r.Body), r.Dropped)
		}
	}
}
