package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// A pop that is sent again says so when an earlier attempt may still be under way, and
// when the client would stop after an empty answer.
func TestRepeatedPopsAreMarked(t *testing.T) {
	t.Parallel()
	again := client.Repeatable()
	for _, tc := range []struct {
		name    string
		answers []*nats.Msg // of the attempts; nil: none
		do      func(context.Context, *client.Queue) error
		want    []bool
	}{
		{"no answer", []*nats.Msg{nil, nil, failure("404", "empty")}, popWith(again), []bool{false, true, true}},
		{"unknown result", []*nats.Msg{failure("504", ""), failure("404", "empty")}, popWith(again), []bool{false, true}},
		{"refused", []*nats.Msg{failure("503", ""), failure("404", "empty")}, popWith(again), []bool{false, false}},
		{"no answer, then refused", []*nats.Msg{nil, failure("503", ""), failure("404", "empty")}, popWith(again), []bool{false, true, true}},
		{"peek", []*nats.Msg{nil, failure("404", "empty")}, func(ctx context.Context, q *client.Queue) error {
			_, err := q.Peek(ctx, client.Min)
			return err
		}, []bool{false, false}},
		{"wait that goes on", []*nats.Msg{failure("504", ""), failure("408", ""), failure("404", "empty")},
			popWith(client.PopID("i"), client.Wait(math.MaxInt64)), []bool{false, false, false}},
		{"wait", []*nats.Msg{failure("504", ""), failure("408", "")}, popWith(client.PopID("i"), client.Wait(time.Minute)), []bool{false, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var marked []bool
			serve := fake
			if slices.Contains(tc.answers, nil) {
				serve = forgetful
			}
			c := serve(t, func(m *nats.Msg, n int) *nats.Msg {
				var request struct {
					Repeat bool
					MsgID  string `json:"msg_id"`
				}
				if len(m.Data) > 0 {
					if err := json.Unmarshal(m.Data, &request); err != nil {
						t.Error(err)
					}
				}
				if request.Repeat && request.MsgID == "" {
					t.Errorf("a repetition without an id: %s", m.Data)
				}
				mu.Lock()
				defer mu.Unlock()
				marked = append(marked, request.Repeat)
				return tc.answers[min(n, len(tc.answers))-1]
			})
			err := tc.do(t.Context(), c.Queue("jobs"))
			last := tc.answers[len(tc.answers)-1]
			var code int
			if _, err := fmt.Sscan(last.Header.Get("Status"), &code); err != nil {
				t.Fatal(err)
			}
			fails(t, err, client.ErrEmpty, code, client.Reason(last.Header.Get("PQ-Reason")))
			mu.Lock()
			defer mu.Unlock()
			if len(marked) < len(tc.want) || !slices.Equal(marked[:len(tc.want)], tc.want) {
				t.Errorf("marked were %v, expected %v", marked, tc.want)
			}
		})
	}
}

func popWith(options ...client.PopOption) func(context.Context, *client.Queue) error {
	return func(ctx context.Context, q *client.Queue) error {
		_, err := q.Pop(ctx, client.Min, options...)
		return err
	}
}

// A refusal after an attempt without an answer leaves the result open: that attempt may
// be done later.
func TestRefusalAfterNoAnswer(t *testing.T) {
	t.Parallel()
	const refused = "506" // which the client does not ask again
	refusedPush := func() *nats.Msg {
		return &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","error":{"code":403,"err_code":30403,"description":"no"}}`)}
	}
	for _, tc := range []struct {
		name    string
		refusal *nats.Msg
		code    int
		do      func(context.Context, *client.Client, *client.Queue) error
		open    bool
	}{
		{"push", refusedPush(), 403, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
			_, err := q.Push(ctx, nil)
			return err
		}, true},
		{"pop", failure(refused, ""), 506, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
			return popWith(client.Repeatable())(ctx, q)
		}, true},
		{"peek", failure(refused, ""), 506, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
			_, err := q.Peek(ctx, client.Min)
			return err
		}, false},
		{"ack", failure(refused, ""), 506, func(ctx context.Context, c *client.Client, q *client.Queue) error {
			item, err := c.Attach("pq." + q.Name() + ".ack.c.t")
			if err == nil {
				err = item.Ack(ctx)
			}
			return err
		}, true},
		{"pause", failure(refused, ""), 506, func(ctx context.Context, _ *client.Client, q *client.Queue) error { return q.Pause(ctx) }, true},
		{"info", failure(refused, ""), 506, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
			_, err := q.Info(ctx)
			return err
		}, false},
		{"push that is wrong", &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","error":{"code":400,"err_code":30400,"description":"no"}}`)},
			400, func(ctx context.Context, _ *client.Client, q *client.Queue) error {
				_, err := q.Push(ctx, nil)
				return err
			}, false},
	} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first attempt answered %t", tc.name, answered), func(t *testing.T) {
				t.Parallel()
				serve := forgetful
				if answered {
					serve = fake
				}
				c := serve(t, func(_ *nats.Msg, n int) *nats.Msg {
					switch {
					case n > 1:
						return &nats.Msg{Header: tc.refusal.Header, Data: tc.refusal.Data}
					case answered:
						return failure("503", "")
					}
					return nil
				})
				want := tc.code
				if tc.open && !answered {
					want = 504
				}
				err := tc.do(t.Context(), c, c.Queue("jobs"))
				var e *client.Error
				if !errors.As(err, &e) || e.Code != want {
					t.Errorf("%v, expected code %d", err, want)
				}
			})
		}
	}
}
