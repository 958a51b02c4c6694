package pqd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Asked are items of the queue asked whose callers push and wait, while callers, workers and processes are killed. Each caller has to
// hear how its item ended, and that has to be true: an end that a worker knows of, if there is one, and otherwise one that some worker has
// tried, or the end of the item's time.
type Asked struct {
	testing.TB
	url string
	n   int

	mu    sync.Mutex
	said  []map[finish]bool // by item: the ends that workers have tried
	known []*finish         // of which they know that they took effect
	heard []*client.Result

	// Programs start workers in other languages. Each prints "ready", and "<item> <text>" before it returns the text as the result of an item, with which
	// it has nothing to do afterwards. It is killed, and started again.
	Programs []func() *exec.Cmd

	killedCallers, killedWorkers atomic.Int64
	returned                     atomic.Int64 // texts of programs
}

// finish is how an item ended.
type finish struct {
	outcome protocol.Finish
	text    string // what its worker said: the result, or the reason
}

// NewAsked returns the items of callers that reach the queue by the NATS servers at url.
func NewAsked(t testing.TB, url string, n int) *Asked {
	t.Helper()
	return &Asked{TB: t, url: url, n: n, said: make([]map[finish]bool, n), known: make([]*finish, n), heard: make([]*client.Result, n)}
}

// dial returns the queue for a caller or a worker, and how it dies.
func (a *Asked) dial() (queue *client.Queue, die func()) {
	queue, die, err := Dial(a.url, "asked")
	if err != nil {
		a.Error(err)
	}
	return queue, die
}

// Dial returns a queue at the NATS servers at url, which need not be there yet, and how its client dies.
func Dial(url, queue string) (q *client.Queue, die func(), err error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(ReconnectWait), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(nc, client.Timeout(testenv.Most))
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return c.Queue(queue), nc.Close, nil
}

// asksFor is for how long a worker has an item, and how long every twentieth item may wait.
const asksFor = 2 * time.Second

// Run has callers push and wait, and workers work. Meanwhile something happens a number of times, each time after the same number of
// results.
func (a *Asked) Run(random *rand.Rand, callers, workers, times int, happen func(i int)) time.Duration {
	a.Helper()
	began, part := time.Now(), a.n/(times+1)
	moments := make(chan int, times)
	var next, done atomic.Int64
	var all, works sync.WaitGroup
	over, stop := context.WithCancel(a.Context())
	for range workers {
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		works.Go(func() {
			for over.Err() == nil {
				if own.IntN(2) == 0 {
					a.work(over, own)
				} else {
					a.workByReturn(over, own)
				}
			}
		})
	}
	for _, program := range a.Programs {
		own := rand.New(rand.NewPCG(random.Uint64(), 3))
		works.Go(func() {
			for over.Err() == nil {
				a.runProgram(over, program(), time.Second+time.Duration(own.Int64N(int64(2*time.Second))))
			}
		})
	}
	for range callers {
		own := rand.New(rand.NewPCG(random.Uint64(), 2))
		all.Go(func() {
			queue, die := a.dial()
			defer die()
			for i := int(next.Add(1)) - 1; i < a.n; i = int(next.Add(1)) - 1 {
				a.call(queue, own, i)
				if k := int(done.Add(1)); k%part == 0 && k/part <= times {
					moments <- k
				}
			}
		})
	}
	for i := range times {
		<-moments
		happen(i)
	}
	all.Wait()
	took := time.Since(began)
	stop()
	works.Wait()
	return took
}

// call pushes an item and waits for its end. Sometimes it is killed, and its successor pushes the item again.
func (a *Asked) call(queue *client.Queue, random *rand.Rand, i int) {
	options := []client.PushOption{client.MsgID(strconv.Itoa(i)), client.ResultTTL(time.Hour), client.Priority(int64(i % 10))}
	if i%20 == 0 {
		options = append(options, client.TTL(asksFor))
	}
	for random.IntN(5) == 0 {
		a.killedCallers.Add(1)
		short, die := a.dial()
		time.AfterFunc(time.Duration(random.Int64N(int64(20*time.Millisecond))), die)
		_, _ = short.PushAndWait(a.Context(), []byte(strconv.Itoa(i)), options...)
	}
	r, err := queue.PushAndWait(a.Context(), []byte(strconv.Itoa(i)), options...)
	if err != nil {
		a.Errorf("item %d: %v", i, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard[i] = r
}

// work is a worker, until it is killed.
func (a *Asked) work(over context.Context, random *rand.Rand) {
	queue, die := a.dial()
	defer die()
	for left := random.IntN(500); left >= 0; left-- {
		item, err := queue.Pop(over, client.Min, client.Lease(asksFor), client.Wait(time.Second))
		switch {
		case over.Err() != nil:
			return
		case errors.Is(err, client.ErrEmpty), errors.Is(err, client.ErrUnknownResult): // what it may have leased comes back
			continue
		case err != nil:
			a.Errorf("pop: %v", err)
			return
		}
		if left == 0 { // the worker is killed as it settles
			a.killedWorkers.Add(1)
			time.AfterFunc(time.Duration(random.Int64N(int64(2*time.Millisecond))), die)
		}
		a.end(item, random)
	}
}

// workByReturn is a worker whose handlers return what came of the work, until it is killed.
func (a *Asked) workByReturn(over context.Context, random *rand.Rand) {
	queue, die := a.dial()
	defer die()
	defer context.AfterFunc(over, die)()
	var mu sync.Mutex // of random
	chance := func() (int, uint64) {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100), random.Uint64()
	}
	defer time.AfterFunc(time.Duration(random.Int64N(int64(3*time.Second))), func() {
		a.killedWorkers.Add(1)
		die()
	}).Stop()
	err := client.Work(over, queue, func(ctx context.Context, payload string) ([]byte, error) {
		i, err := a.item(payload)
		if err != nil {
			return nil, err
		}
		percent, word := chance()
		text := fmt.Sprintf("%d %d %x", i, client.ItemOf(ctx).Fence, word)
		switch {
		case percent < 70:
			a.tries(i, finish{protocol.FinishDone, text})
			return []byte(text), nil
		case percent < 80:
			a.tries(i, finish{protocol.FinishDone, ""})
			return nil, nil
		case percent < 90:
			a.tries(i, finish{protocol.FinishDead, text})
			return nil, client.GiveUp(errors.New(text))
		}
		return nil, client.RetryAfter(0, errors.New("not this time"))
	}, client.ConsumeOptions{Workers: 4, Lease: asksFor, OnError: func(*client.Item, error) {}})
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		a.Errorf("work: %v", err)
	}
}

// runProgram runs a worker for a while, and kills it.
func (a *Asked) runProgram(over context.Context, program *exec.Cmd, lives time.Duration) {
	out, err := program.StdoutPipe()
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		a.Error(err)
		return
	}
	kill := func() { _ = program.Process.Kill() }
	defer time.AfterFunc(lives, kill).Stop()
	defer context.AfterFunc(over, kill)()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		payload, text, said := strings.Cut(lines.Text(), " ")
		if !said {
			continue // it is ready
		}
		if i, err := a.item(payload); err == nil {
			a.tries(i, finish{protocol.FinishDone, text})
			a.returned.Add(1)
		}
	}
	if err := program.Wait(); err == nil {
		a.Errorf("%s ended by itself", program.Path)
	}
	a.killedWorkers.Add(1)
}

// item is the number of an item.
func (a *Asked) item(payload string) (int, error) {
	i, err := strconv.Atoi(payload)
	if err != nil || i < 0 || i >= a.n {
		err = fmt.Errorf("popped %q", payload)
		a.Error(err)
	}
	return i, err
}

// end ends an item in some way, or not at all.
func (a *Asked) end(item *client.Item, random *rand.Rand) {
	i, err := a.item(string(item.Payload))
	if err != nil {
		return
	}
	ctx := a.Context()
	text := fmt.Sprintf("%d %d %x", i, item.Fence, random.Uint64())
	if random.IntN(10) == 0 { // somebody cancels it meanwhile
		defer a.cancel(i, item.ID, text)()
	}
	switch chance := random.IntN(100); {
	case chance < 60:
		err = a.try(i, finish{protocol.FinishDone, text}, func() error { return item.AckWith(ctx, []byte(text)) })
	case chance < 75:
		err = a.try(i, finish{protocol.FinishDone, ""}, func() error { return item.Ack(ctx) })
	case chance < 85:
		err = a.try(i, finish{protocol.FinishDead, text}, func() error { return item.Terminate(ctx, text) })
	case chance < 95:
		err = item.Nack(ctx)
	case chance < 98:
		err = item.GiveBack(ctx, "")
	}
	if err != nil && !errors.Is(err, client.ErrLeaseLost) && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, client.ErrUnknownResult) {
		a.Errorf("item %d: %v", i, err)
	}
}

// cancel begins to cancel an item by another connection, and returns a function that waits for that.
func (a *Asked) cancel(i int, id, why string) (wait func()) {
	var begun sync.WaitGroup
	begun.Go(func() {
		queue, die := a.dial()
		defer die()
		how := finish{protocol.FinishCancelled, why}
		a.tries(i, how)
		switch done, err := queue.Cancel(a.Context(), id, client.CancelOptions{Reason: why}); {
		case err != nil && !errors.Is(err, client.ErrUnknownResult):
			a.Errorf("cancel item %d: %v", i, err)
		case err == nil && done.FinishedAt.IsZero():
			a.knows(i, how)
		}
	})
	return begun.Wait
}

// tries notes how a worker is about to end an item.
func (a *Asked) tries(i int, how finish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.said[i] == nil {
		a.said[i] = make(map[finish]bool)
	}
	a.said[i][how] = true
}

// try ends an item, and notes that before, and afterwards if it took effect.
func (a *Asked) try(i int, how finish, end func() error) error {
	a.tries(i, how)
	err := end()
	if err == nil {
		a.knows(i, how)
	}
	return err
}

// knows notes that an item has ended.
func (a *Asked) knows(i int, how finish) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[i] != nil {
		a.Errorf("item %d ended twice: %v, %v", i, *a.known[i], how)
	}
	a.known[i] = &how
}

// Judge compares what callers heard with what workers said.
func (a *Asked) Judge() {
	a.Helper()
	outcomes, unheard, untrue := make(map[protocol.Finish]int), 0, 0
	for i, r := range a.heard {
		if r == nil {
			unheard++
			continue
		}
		outcomes[r.Outcome]++
		is := finish{r.Outcome, string(r.Body) + r.Reason}
		expired := r.Outcome == protocol.FinishExpired && i%20 == 0
		known := a.known[i]
		if known != nil && *known != is || known == nil && !expired && !a.said[i][is] || r.Dropped {
			if untrue++; untrue < 10 {
				a.Errorf("item %d: its caller heard %+v; its workers tried %v and know of %v", i, r, a.said[i], known)
			}
		}
	}
	if unheard+untrue > 0 {
		a.Errorf("of %d callers %d heard nothing, and %d what is not true", a.n, unheard, untrue)
	}
	queue, die := a.dial()
	defer die()
	if info, err := queue.Info(a.Context()); err != nil || info.Ready+info.Leased+info.Delayed > 0 || info.Results != int64(a.n) {
		a.Errorf("the queue: %+v, %v, expected no item and %d results", info, err, a.n)
	}
	a.Logf("%v; %d callers and %d workers were killed; programs returned %d values", outcomes, a.killedCallers.Load(), a.killedWorkers.Load(), a.returned.Load())
}
