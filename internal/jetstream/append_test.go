package jetstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/testenv"
)

// The answer to an append counts, however late it is: a server whose disk or network is slow may answer each attempt behind its
// limit, and then no attempt would ever succeed.
func TestLateAnswerToAppend(t *testing.T) {
	t.Parallel()
	nc := connect(t, testenv.NATS(t).URL())
	l := open(t, nc, jetstream.Options{Name: "slow", Replicas: 1, MaxBytes: maxBytes})
	attempts := make(chan *nats.Msg, 16)
	if _, err := nc.ChanSubscribe(jetstream.Root("slow")+".log", attempts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Times(20*time.Second))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.Append(ctx, 7, []byte("x")) }()
	first := <-attempts
	<-attempts // the first one has no answer yet
	if err := first.Respond([]byte(`{"stream":"` + jetstream.Stream("slow", 1) + `","seq":8}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the entry is number 8, and its append says %v", err)
	}
}
