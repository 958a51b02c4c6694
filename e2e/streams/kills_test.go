package streams_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagMessages = flag.Int("pq.messages", 0, "messages that become items beside kills; 0: a few thousand")

// A stream becomes a queue while pqd is killed: each message once, in order, in both modes.
func TestSourceBesideKills(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"copy", "take"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := jetStream(t)
			setting, _ := remotes(t, map[string]any{"hub": map[string]any{"url": server.URL(), "streams": reads("ORDERS", "jobs")}})
			p := testenv.Daemon(t, setting)
			c := newCrossing(t, mode, "hub", server.URL(), p.URL, 1)
			c.beside(cmp.Or(*pqd.Kills, 6), func(int) {
				p.Kill(t)
				p.Start(t)
			})
		})
	}
}

// The same with a stream of three replicas and three pqd that keep one store, of which some end, too.
func TestSourceOnCluster(t *testing.T) {
	nightly.Only(t, "TestSourceBesideKills has the same on one pqd")
	t.Parallel()
	for _, mode := range []string{"copy", "take"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			streams := testenv.NewCluster(t)
			setting, _ := remotes(t, map[string]any{"hub": map[string]any{"url": streams.URL(), "streams": reads("ORDERS", "jobs")}})
			nodes := testenv.NewNodes(t, setting)
			x := &pqd.NodeFaults{Nodes: nodes, Random: pqd.Seeded(t)}
			c := newCrossing(t, mode, "hub", streams.URL(), nodes.URL(), 3)
			c.beside(cmp.Or(*pqd.Kills, 2), func(i int) {
				what := []string{"SIGKILL of the active node", "", "SIGKILL of two", "", "SIGSTOP of the active node", "", "pq cluster step-down", ""}[i%8]
				if what != "" {
					x.Happen(t, what)
					return
				}
				leader := streams.StreamLeader(t, "ORDERS")
				streams.Kill(t, leader)
				streams.StreamLeader(t, "ORDERS")
				streams.Start(t, leader)
				streams.AwaitCurrent(t, "ORDERS")
			})
		})
	}
}

// crossing is the way of numbered messages through a stream and a source into a queue.
type crossing struct {
	*testing.T
	js        jetstream.JetStream
	queue     *client.Queue
	n         int
	published chan error
	sent      atomic.Int64
}

// newCrossing makes the stream and the source, and begins to publish.
func newCrossing(t *testing.T, mode, remote, streams, bridge string, replicas int) *crossing {
	t.Helper()
	c := &crossing{T: t, n: cmp.Or(*flagMessages, 3000), published: make(chan error, 1)}
	var err error
	if c.js, err = jetstream.New(connect(t, streams), jetstream.WithDefaultTimeout(testenv.Patience()), jetstream.WithPublishAsyncTimeout(askAgain)); err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Replicas: replicas, Duplicates: time.Hour}
	if mode == "take" {
		config.Retention = jetstream.WorkQueuePolicy
	}
	if _, err := c.js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	c.queue = jobs(t, bridge)
	stream, batch := "ORDERS", 50
	if *flagMessages > 0 {
		batch = 512
	}
	if _, err := c.queue.SetSource(t.Context(), "orders", client.SourceChange{Remote: &remote, Stream: &stream, Mode: &mode, Batch: &batch}); err != nil {
		t.Fatal(err)
	}
	go func() { c.published <- c.publish() }()
	return c
}

// askAgain is after what time a message without an answer is published again. What a server has as it ends is lost.
const askAgain = 2 * time.Second

// publish publishes the numbers, each until the stream has it.
func (c *crossing) publish() error {
	const atOnce = 500
	for first := 1; first <= c.n; first += atOnce {
		var todo []int
		for i := first; i < min(first+atOnce, c.n+1); i++ {
			todo = append(todo, i)
		}
		for len(todo) > 0 {
			answers := make(map[int]jetstream.PubAckFuture)
			for _, i := range todo {
				text := strconv.Itoa(i)
				answer, err := c.js.PublishAsync("orders.x", []byte(text), jetstream.WithMsgID(text))
				if err == nil {
					answers[i] = answer
				}
			}
			var again []int
			for _, i := range todo {
				answer := answers[i]
				if answer == nil {
					again = append(again, i)
					continue
				}
				select {
				case <-answer.Ok():
				case <-answer.Err():
					again = append(again, i)
				case <-c.Context().Done():
					return c.Context().Err()
				}
			}
			todo = again
		}
		c.sent.Add(atOnce)
	}
	return nil
}

// source waits until the source is as it is to be.
func (c *crossing) source(what string, is func(client.Source) bool) {
	c.Helper()
	var seen client.Source
	var failed error
	defer func() {
		if c.Failed() {
			c.Logf("the source is %+v, %v; %d messages are published", seen, failed, c.sent.Load())
		}
	}()
	testenv.Await(c, what, func() bool {
		s, err := c.queue.Source(c.Context(), "orders")
		if failed = err; err == nil {
			seen = s
		}
		return err == nil && is(s)
	})
}

// beside has something end some times on the way, and then judges what has come.
func (c *crossing) beside(ends int, end func(i int)) {
	c.Helper()
	began := time.Now()
	for i := range ends {
		c.source(fmt.Sprint("the source has moved for the time ", i), func(s client.Source) bool { return s.Seq >= uint64(c.n*i/ends) })
		end(i)
	}
	if err := <-c.published; err != nil {
		c.Fatal(err)
	}
	var stream jetstream.Stream
	testenv.AwaitAnswer(c, "the stream is there", func(ctx context.Context) (there bool) {
		found, err := c.js.Stream(ctx, "ORDERS")
		stream = found
		return err == nil
	})
	last := stream.CachedInfo().State.LastSeq
	c.source(fmt.Sprint("the source is at ", last), func(s client.Source) bool { return s.Seq == last })
	c.Logf("%d messages in %v beside %d ends", c.n, time.Since(began).Round(time.Millisecond), ends)
	if last != uint64(c.n) {
		c.Errorf("the stream has had %d messages, expected %d", last, c.n)
	}
	seen, before := make([]bool, c.n+1), uint64(0)
	for popped := 0; popped < c.n; {
		items, err := c.queue.PopBatch(c.Context(), client.Min, 500, client.Repeatable())
		if err != nil {
			c.Fatalf("%d items have come, expected %d: %v", popped, c.n, err)
		}
		for _, item := range items {
			i, err := strconv.Atoi(string(item.Payload))
			if err != nil || i < 1 || i > c.n || seen[i] || item.Source == nil || item.Source.Seq <= before {
				c.Fatalf("item %q behind message %d: %+v", item.Payload, before, item.Source)
			}
			seen[i], before = true, item.Source.Seq
		}
		popped += len(items)
	}
	if item, err := c.queue.Pop(c.Context(), client.Min); !errors.Is(err, client.ErrEmpty) {
		c.Errorf("one more item: %v, %v", item, err)
	}
}
