package client_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// Keys are listed on any number of pages, shown, and set. A setting that is dropped goes by
// the queue again.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	_, err := w.queue.Key(ctx, "a.b")
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	if _, err := w.queue.Configure(ctx, client.ConfigChange{Fair: new("priority"), KeyRate: new("5/1h")}); err != nil {
		t.Fatal(err)
	}
	w.push(t, "x", client.Key("a.b"), client.Weight(3))
	if _, err := w.queue.PushMany(ctx, client.NewItem{Payload: []byte("y"), Options: []client.PushOption{client.Key("c"), client.Weight(4)}}); err != nil {
		t.Fatal(err)
	}
	settings, err := w.queue.SetKey(ctx, "a.b", client.KeyChange{KeySettings: client.KeySettings{Limit: new(int64(2)), Rate: new("1/1s"), Paused: new(true)}})
	if err != nil || settings.Limit == nil || *settings.Limit != 2 || *settings.Rate != "1/1s" || settings.Weight != nil || !*settings.Paused {
		t.Errorf("%+v, %v", settings, err)
	}
	settings, err = w.queue.SetKey(ctx, "a.b", client.KeyChange{KeySettings: client.KeySettings{Weight: new(int64(7))}, Drop: []string{"limit", "paused"}})
	if err != nil || settings.Limit != nil || settings.Paused != nil || *settings.Weight != 7 {
		t.Errorf("%+v, %v", settings, err)
	}
	info, err := w.queue.Key(ctx, "a.b")
	if err != nil || info.Ready != 1 || info.Rate != "1/1s" || info.Weight != 7 || info.Tokens == nil || *info.Tokens != 1 {
		t.Errorf("%+v, %v", info, err)
	}
	if info, err := w.queue.Key(ctx, "c"); err != nil || info.Weight != 4 || info.Rate != "5/1h0m0s" {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = w.queue.SetKey(ctx, "a.b", client.KeyChange{Drop: []string{"order"}})
	if e := (*client.Error)(nil); !errors.As(err, &e) || e.Code != 400 {
		t.Error(err)
	}
	if _, err := w.queue.SetKey(ctx, "", client.KeyChange{}); err == nil {
		t.Error("settings of no key")
	}
	want := []string{"a.b", "c"}
	for i := range 150 {
		key := fmt.Sprintf("k%03d", i)
		want = append(want, key)
		w.push(t, "z", client.Key(key))
	}
	var all []string
	for k, err := range w.queue.Keys(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k.Key)
	}
	if !slices.Equal(all, want) {
		t.Errorf("%q", all)
	}
	for k := range w.queue.Keys(ctx, "k010") {
		if k.Key != "k011" {
			t.Errorf("%q comes behind k010", k.Key)
		}
		break
	}
	for _, err := range w.client.Queue("none").Keys(ctx, "") {
		fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	}
}

// A client can tell that the rate of the queue is the reason.
func TestRate(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{Rate: new("1/1h")}); err != nil {
		t.Fatal(err)
	}
	w.push(t, "x")
	w.push(t, "y")
	w.pop(t, client.Min)
	_, err := w.queue.Pop(t.Context(), client.Min)
	fails(t, err, client.ErrEmpty, 404, client.ReasonRate)
	_, err = w.queue.Pop(t.Context(), client.Min, client.Wait(50*time.Millisecond))
	if !errors.Is(err, client.ErrEmpty) {
		t.Error(err)
	}
	_, err = w.queue.Push(t.Context(), nil, client.Weight(5))
	if e := (*client.Error)(nil); !errors.As(err, &e) || e.Code != 400 {
		t.Error(err)
	}
}
