package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

func TestPush(t *testing.T) {
	t.Parallel()
	w := start(t)
	header := nats.Header{"Trace": {"a", "b"}}
	pushed := w.push(t, "seven", client.Priority(7), client.Header(header))
	if pushed.ID == "" || pushed.Seq != 1 || pushed.Priority != 7 || pushed.Duplicate || pushed.Evicted {
		t.Errorf("pushed: %+v", pushed)
	}
	item := w.pop(t, client.Min)
	if item.ID != pushed.ID || item.Priority != 7 || string(item.Payload) != "seven" || item.Queue != "jobs" {
		t.Errorf("popped: %+v", item)
	}
	if diff := cmp.Diff(header, item.Header); diff != "" {
		t.Errorf("headers: -pushed +popped\n%s", diff)
	}
	if age := time.Since(item.Pushed); age < 0 || age > time.Minute {
		t.Errorf("pushed %s ago", age)
	}
	if item.Leased() || item.Deliveries != 0 || item.Fence != 0 {
		t.Errorf("popped without a lease: %+v", item)
	}
}

func TestPushOptions(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.push(t, "delayed", client.Delay(time.Hour))
	_, err := w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonDelayed)

	due := time.Now().Add(2 * time.Hour)
	later := w.push(t, "later", client.NotBefore(due))
	item, err := w.queue.Get(t.Context(), later.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := item.Due.Sub(due); item.State != client.Delayed || d < -time.Minute || d > time.Minute {
		t.Errorf("state %s, due %s, expected it delayed until %s", item.State, item.Due, due)
	}

	w.push(t, "short-lived", client.TTL(time.Nanosecond))
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonDelayed)

	_, err = w.queue.Push(t.Context(), nil, client.Delay(-time.Second))
	fails(t, err, err, 400, "")
}

func TestPushOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	first := w.push(t, "one", client.MsgID("a"))
	again := w.push(t, "another", client.MsgID("a"))
	if !again.Duplicate || again.ID != first.ID || again.Seq != first.Seq {
		t.Errorf("pushed again: %+v, expected a duplicate of %+v", again, first)
	}
	for range 2 {
		if p := w.push(t, "without an id"); p.Duplicate {
			t.Errorf("a push without an id is a duplicate: %+v", p)
		}
	}
}

func TestPushTooLarge(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, err := w.queue.Push(t.Context(), make([]byte, w.nc.MaxPayload()-100))
	fails(t, err, client.ErrTooLarge, 413, "")
	_, err = w.queue.Push(t.Context(), make([]byte, w.nc.MaxPayload()+1))
	fails(t, err, client.ErrTooLarge, 413, "")
	if !strings.Contains(err.Error(), "its max_payload") {
		t.Errorf("%v: expected the name of the limit", err)
	}
	if !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("%v: expected it to be nats.ErrMaxPayload too", err)
	}
}

func TestPushAsync(t *testing.T) {
	t.Parallel()
	const n = 500
	w := start(t, client.MaxInFlight(64))
	var futures []*client.Future
	for i := range n {
		f, err := w.queue.PushAsync(t.Context(), fmt.Append(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	if err := w.client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, f := range futures {
		select {
		case <-f.Done():
		default:
			t.Fatal("Flush returned before all pushes were answered")
		}
		p, err := f.Result()
		if err != nil || p.Seq != uint64(i+1) {
			t.Fatalf("push %d: %+v, %v, expected this order", i, p, err)
		}
	}
}

// A push beyond the limits of pushes in flight waits until others are answered, no longer
// than its context.
func TestPushesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		most, fit  int
		lackOfFull int // bytes that a payload lacks of the largest message
	}{
		{"by number", 3, 3, 1 << 20},
		{"by bytes", 100, 16, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer := make(chan struct{})
			release := sync.OnceFunc(func() { close(answer) })
			defer release()
			nc := fake(t, func(*nats.Msg, int) *nats.Msg {
				<-answer
				return pushAnswer()
			}).Conn()
			c := newClient(t, nc, client.MaxInFlight(tc.most))
			c.AskAgainAfter(time.Hour)
			payload := make([]byte, int(nc.MaxPayload())-tc.lackOfFull)
			for range tc.fit {
				if _, err := c.Queue("jobs").PushAsync(t.Context(), payload); err != nil {
					t.Fatal(err)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Queue("jobs").PushAsync(ended, payload); !errors.Is(err, context.Canceled) {
				t.Errorf("push %d: %v, expected it to wait until its context ended", tc.fit+1, err)
			}
			release()
			for range 2 * tc.fit {
				if _, err := c.Queue("jobs").PushAsync(t.Context(), payload); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPushAndForget(t *testing.T) {
	t.Parallel()
	w := start(t)
	if err := w.queue.PushAndForget([]byte("x"), client.Priority(-1)); err != nil {
		t.Fatal(err)
	}
	item := w.pop(t, client.Max, client.Wait(time.Minute))
	if string(item.Payload) != "x" || item.Priority != -1 {
		t.Errorf("popped: %+v", item)
	}
}

// Answers to bundles are read as encoding/json reads them, in the words of bridges and in all others.
func TestReadResults(t *testing.T) {
	t.Parallel()
	const head = `{"type":"io.pq.v1.push_response","stream":"jobs","seq":2`
	for text, plain := range map[string]bool{
		head + `,"items":[{"seq":1,"id":"a","priority":0}]}`:                                                                 true,
		head + `,"duplicate":true,"items":[{"seq":1,"duplicate":true,"id":"a","priority":-9223372036854775808}]}`:            true,
		head + `,"items":[{"seq":1,"id":"a","priority":7,"evicted":true},{"seq":9223372036854775807,"id":"","priority":0}]}`: true,
		head + `,"items":[]}`: false,
		head + `}`:            false,
		head + `,"items":[{"seq":1,"id":"a\"b","priority":0}]}`:                                                         false,
		head + `,"items":[{"id":"a","seq":1,"priority":0}]}`:                                                            false,
		head + `,"items":[{"seq":1,"id":"a","priority":0},{"error":{"code":400,"err_code":30400,"description":"no"}}]}`: false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}],"later":1}`:                                                  false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}`:                                                              false,
		head + `,"items":[{"seq":1,"id":"a","priority":0},`:                                                             false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}]}}`:                                                           false,
		head + `,"items":[{"seq":1.5,"id":"a","priority":0}]}`:                                                          false,
		head + `,"items":[{"seq":--1,"id":"a","priority":0}]}`:                                                          false,
		head + `,"items":[{"seq":1,"id":"a","priority":99999999999999999999}]}`:                                         false,
	} {
		var want protocol.PushResponse
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := client.ReadResults([]byte(text))
		if (err == nil) != (wantErr == nil) || err == nil && len(got)+len(want.Items) > 0 && !reflect.DeepEqual(got, want.Items) {
			t.Errorf("%s: %+v, %v; expected %+v, %v", text, got, err, want.Items, wantErr)
		}
		if _, is := client.ReadPlainResults([]byte(text)); is != plain {
			t.Errorf("%s: read by itself: %v, expected %v", text, is, plain)
		}
	}
}
