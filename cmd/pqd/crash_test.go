package main_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// However pqd ends while clients push and pop, no acknowledged push is lost and
// nothing comes back whose pop was answered. Half of the clients give their
// requests an id and repeat what was not answered, and for them everything
// happens exactly once.
func TestEndsUnderLoad(t *testing.T) {
	const (
		rounds   = 3
		fewest   = 100 // answers before the end
		variance = 400
	)
	for _, c := range []struct {
		name string
		end  func(*testenv.Process, testing.TB)
	}{
		{"SIGKILL", (*testenv.Process).Kill},
		{"SIGTERM", (*testenv.Process).Stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			p := testenv.Daemon(t)
			l := &load{pushed: make(map[string]pushState), popped: make(map[string]int)}
			for round := range rounds {
				if round > 0 {
					p.Start(t)
				}
				l.run(t, p, fewest+random.Int64N(variance), c.end)
			}
			p.Start(t)
			nc := p.Connect(t)
			l.repeat(t, nc)
			for _, body := range drain(t, nc, "load") {
				l.popped[body]++
			}
			l.judge(t)
			nc.Close()
			p.Stop(t)
		})
	}
}

const (
	producers = 4
	consumers = 4
)

type pushState int

const (
	unknown      pushState = iota // sent, without an answer: it may have happened
	acknowledged                  // it has happened
)

// load is what some clients have done and what they know about it.
type load struct {
	answers atomic.Int64

	mu       sync.Mutex
	next     int // number of the next request
	pushed   map[string]pushState
	popped   map[string]int // how often each item was handed out
	inDoubt  int            // pops without an answer that cannot be repeated: each may have taken an item
	unsolved []*nats.Msg    // requests without an answer that can be repeated
}

// run has clients push and pop until so many answers have come, ends pqd, and
// returns when the clients have noticed.
func (l *load) run(t *testing.T, p *testenv.Process, answers int64, end func(*testenv.Process, testing.TB)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	enough := make(chan struct{})
	target := l.answers.Load() + answers
	count := func() {
		if l.answers.Add(1) == target {
			close(enough)
		}
	}

	var clients sync.WaitGroup
	for i := range producers + consumers {
		nc := p.Connect(t, nats.NoReconnect())
		request := l.push
		if i >= producers {
			request = l.pop
		}
		withID := i%2 == 0
		clients.Go(func() {
			defer nc.Close()
			for request(ctx, nc, withID) {
				count()
			}
		})
	}
	nc := p.Connect(t)
	l.repeat(t, nc)
	nc.Close()
	gone := make(chan struct{})
	go func() {
		clients.Wait()
		close(gone)
	}()
	select {
	case <-enough:
	case <-p.Exited():
		t.Fatal("pqd ended by itself")
	case <-gone:
		t.Fatal("the clients got answers that made them stop")
	}
	end(p, t)
	cancel()
	<-gone
}

// push sends one new item. It is false when no more answers are to be expected.
func (l *load) push(ctx context.Context, nc *nats.Conn, withID bool) bool {
	l.mu.Lock()
	l.next++
	body := fmt.Sprintf("item-%d", l.next)
	request := nats.NewMsg(fmt.Sprintf("pq.load.push.%d", l.next%7))
	request.Data = []byte(body)
	if withID {
		request.Header.Set("Nats-Msg-Id", body)
	}
	l.pushed[body] = unknown
	l.mu.Unlock()

	reply, err := nc.RequestMsgWithContext(ctx, request)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && isAck(reply):
		l.pushed[body] = acknowledged
		return true
	case withID:
		l.unsolved = append(l.unsolved, request)
	case err == nil && reply.Header.Get("Nats-Service-Error-Code") != "504": // refused: certainly nothing happened
		delete(l.pushed, body)
	}
	return false
}

// pop takes one item. It is false when no more answers are to be expected.
func (l *load) pop(ctx context.Context, nc *nats.Conn, withID bool) bool {
	l.mu.Lock()
	l.next++
	request := nats.NewMsg([]string{"pq.load.pop.min", "pq.load.pop.max"}[l.next%2])
	request.Header.Set("PQ-Wait", "1s")
	if withID {
		request.Header.Set("Nats-Msg-Id", fmt.Sprintf("pop-%d", l.next))
	}
	l.mu.Unlock()

	reply, err := nc.RequestMsgWithContext(ctx, request)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && isItem(reply):
		l.popped[string(reply.Data)]++
		return true
	case err == nil && (reply.Header.Get("Status") == "404" || reply.Header.Get("Status") == "408"):
		return true
	case withID:
		l.unsolved = append(l.unsolved, request)
	case errors.Is(err, nats.ErrNoResponders): // nobody got it
	case err != nil:
		l.inDoubt++
	}
	return false
}

// repeat sends again what had no answer, under the same ids.
func (l *load) repeat(t *testing.T, nc *nats.Conn) {
	t.Helper()
	l.mu.Lock()
	unsolved := l.unsolved
	l.unsolved = nil
	l.mu.Unlock()
	for _, request := range unsolved {
		reply, err := nc.RequestMsg(request, patience)
		if err != nil {
			t.Fatalf("repeat %s: %v", request.Subject, err)
		}
		l.mu.Lock()
		switch {
		case isItem(reply):
			l.popped[string(reply.Data)]++
		case isAck(reply):
			l.pushed[string(request.Data)] = acknowledged
		case !strings.HasPrefix(request.Subject, "pq.load.pop."):
			t.Errorf("repeat %s: refused: %v %s", request.Subject, reply.Header, reply.Data)
		}
		l.mu.Unlock()
	}
}

// judge compares what came out with what went in.
func (l *load) judge(t *testing.T) {
	t.Helper()
	missing := 0
	for body, state := range l.pushed {
		switch times := l.popped[body]; {
		case times > 1:
			t.Errorf("%s came out %d times", body, times)
		case times == 0 && state == acknowledged:
			missing++
		}
	}
	// A pop that can be neither answered nor repeated may have taken an item.
	if missing > l.inDoubt {
		t.Errorf("%d acknowledged items are gone, and only %d pops are in doubt", missing, l.inDoubt)
	}
	for body := range l.popped {
		if _, known := l.pushed[body]; !known {
			t.Errorf("%s came out and was refused, or never pushed", body)
		}
	}
	t.Logf("%d pushed, %d came out, %d missing with %d pops in doubt", len(l.pushed), len(l.popped), missing, l.inDoubt)
}
