package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// Items that are pushed in one message have the options of single pushes.
func TestPushMany(t *testing.T) {
	t.Parallel()
	w := start(t)
	pushed, err := w.queue.PushMany(t.Context(),
		client.NewItem{Payload: []byte("a\n")},
		client.NewItem{Payload: []byte("b"), Options: []client.PushOption{client.Priority(-1), client.Header(nats.Header{"X": {"1\r\n2", "3"}})}},
		client.NewItem{Payload: []byte("c"), Options: []client.PushOption{client.Delay(time.Hour)}},
		client.NewItem{Options: []client.PushOption{client.MsgID("own")}},
	)
	if err != nil || len(pushed) != 4 {
		t.Fatalf("%+v, %v", pushed, err)
	}
	for i, want := range map[int]string{1: "b", 0: "a\n", 3: ""} {
		item, err := w.queue.Get(t.Context(), pushed[i].ID)
		if err != nil || string(item.Payload) != want || item.Priority != pushed[i].Priority || pushed[i].Duplicate {
			t.Errorf("item %d: %+v, %v", i, item, err)
		}
		if i == 1 && (item.Priority != -1 || !slices.Equal(item.Header["X"], []string{"1  2", "3"})) {
			t.Errorf("item 1 has the priority %d and the headers %q", item.Priority, item.Header)
		}
	}
	if again := w.push(t, "", client.MsgID("own")); !again.Duplicate || again.ID != pushed[3].ID {
		t.Errorf("the item with an id: %+v", again)
	}
	if none, err := w.queue.PushMany(t.Context()); none != nil || err != nil {
		t.Errorf("no items: %+v, %v", none, err)
	}
}

// Many items are pushed or none, and the error says which one is to blame.
func TestPushManyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, err := w.queue.PushMany(t.Context(), client.NewItem{}, client.NewItem{Options: []client.PushOption{client.TTL(-1)}})
	var e *client.Error
	if !errors.As(err, &e) || e.Code != 400 {
		t.Fatal(err)
	}
	if i, one := e.Item(); i != 1 || !one {
		t.Errorf("item %d, %t: %v", i, one, err)
	}
	_, err = w.queue.PushMany(t.Context(), make([]client.NewItem, client.MaxMany+1)...)
	fails(t, err, client.ErrTooLarge, 413, "")
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if _, one := e.Item(); one {
		t.Errorf("an item is to blame: %v", err)
	}
	_, err = w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonUnknown)
}

// A push of many whose answer was lost is sent again, and its items are added once. Without
// ids it is not sent again.
func TestPushManyLostAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options []client.PushOption
	}{{"made", nil}, {"given", []client.PushOption{client.MsgID("own")}}} {
		t.Run(tc.name, func(t *testing.T) {
			w := start(t)
			c, losses := w.lossy(t)
			pushed, err := c.Queue("jobs").PushMany(t.Context(), client.NewItem{Options: tc.options}, client.NewItem{Options: []client.PushOption{client.MsgID("2")}})
			<-losses
			if err != nil || len(pushed) != 2 || pushed[1].Duplicate != (tc.options != nil) {
				t.Fatalf("%+v, %v", pushed, err)
			}
			if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != 2 {
				t.Errorf("%+v, %v: expected two items", info, err)
			}
		})
	}
	sent := make(chan bool, 10)
	c := fake(t, func(*nats.Msg, int) *nats.Msg {
		sent <- true
		return nil
	})
	_, err := newClient(t, c.Conn(), client.Timeout(300*time.Millisecond)).Queue("jobs").
		PushMany(t.Context(), client.NewItem{}, client.NewItem{Options: []client.PushOption{client.WithoutMsgID()}})
	fails(t, err, client.ErrUnknownResult, 504, "")
	if n := len(sent); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

func ExampleQueue_PushMany() {
	queue, end := exampleQueue("many")
	defer end()
	pushed, err := queue.PushMany(context.Background(),
		client.NewItem{Payload: []byte("read the news")},
		client.NewItem{Payload: []byte("put out the fire"), Options: []client.PushOption{client.Priority(-1)}},
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(pushed), pushed[1].Priority)
	// Output: 2 -1
}
