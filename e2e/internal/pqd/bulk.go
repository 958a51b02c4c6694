package pqd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// ReconnectWait is between attempts of a client to reach pqd again. With the two seconds of most clients it
// is they who take the time that a run beside kills takes.
const ReconnectWait = 20 * time.Millisecond

// Letters are dead letters of the queue jobs that go back to it by a bulk operation, beside faults
// and the work on another queue.
type Letters struct {
	testing.TB
	jobs, dead *client.Queue
	n          int
	others     int64 // dead letters that stay
}

// strangers is how many others die of something else.
const strangers = 3

// NewLetters has items die. Who serves is reached by nc.
func NewLetters(t testing.TB, nc *nats.Conn, n int) *Letters {
	t.Helper()
	c, err := client.New(nc, client.Timeout(testenv.Most))
	if err != nil {
		t.Fatal(err)
	}
	l := &Letters{TB: t, jobs: c.Queue("jobs"), dead: c.Queue("jobs-dead"), n: n}
	l.others = max(0, l.count(l.dead))
	if _, err := l.jobs.Configure(t.Context(), client.ConfigChange{DeadLetterExpired: new(true)}); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < n; from += client.MaxMany {
		items := make([]client.NewItem, min(client.MaxMany, n-from))
		for i := range items {
			items[i] = client.NewItem{Payload: strconv.AppendInt(nil, int64(from+i), 10), Options: []client.PushOption{client.TTL(time.Millisecond)}}
		}
		if _, err := l.jobs.PushMany(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Await(t, "all have died", func() bool { return l.count(l.dead) == l.others+int64(n) })
	l.others += strangers
	for range strangers {
		if _, err := l.jobs.Push(t.Context(), []byte("stranger")); err != nil {
			t.Fatal(err)
		}
		item, err := l.jobs.Pop(t.Context(), client.Min, client.Lease(time.Hour))
		if err == nil {
			err = item.Terminate(t.Context(), "another reason")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *Letters) count(q *client.Queue) int64 {
	info, err := q.Info(l.Context())
	if err != nil {
		return -1
	}
	return info.Ready
}

// Requeue brings them back. Meanwhile it has something happen a few times, at random moments, each
// after a further part of them. It returns how long that took, and for how long of it nothing came back
// after something had happened.
func (l *Letters) Requeue(random *rand.Rand, times int, happen func()) (took, still time.Duration) {
	l.Helper()
	var (
		mu    sync.Mutex
		done  int64
		since time.Time // something has happened, and nothing came back
	)
	progress := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
	ended := make(chan error, 1)
	begun := time.Now()
	go func() {
		result, err := l.dead.Bulk(context.WithoutCancel(l.Context()), client.Bulk{
			Verb: client.BulkRequeue, Where: client.BulkWhere{Reason: "exp*"}, Page: min(protocol.MaxBulk, l.n/(times+1)/4+1),
			Progress: func(r client.BulkResult) {
				mu.Lock()
				defer mu.Unlock()
				if took = time.Since(begun); r.Done > done && !since.IsZero() {
					still += time.Since(since)
					since = time.Time{}
				}
				done = r.Done
			},
		})
		if err == nil && (result.Next != "" || result.Full || !result.AtLeast && result.Done != int64(l.n)) {
			err = fmt.Errorf("the end of the operation: %+v", result)
		}
		ended <- err
	}()
	for k := range times {
		testenv.Await(l, "a further part is back", func() bool { return progress() > int64((k+1)*l.n/(times+2)) || len(ended) > 0 })
		<-time.After(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		if len(ended) > 0 {
			l.Logf("%d of %d have happened before all was back", k, times)
			break
		}
		mu.Lock()
		before := done
		since = time.Now()
		mu.Unlock()
		happen()
		testenv.Await(l, "it goes on", func() bool { return progress() > before || len(ended) > 0 })
	}
	if err := <-ended; err != nil {
		l.Fatal(err)
	}
	return took, still
}

// Judge compares what is there with what has to be.
func (l *Letters) Judge() {
	l.Helper()
	if n := l.count(l.dead); n != l.others {
		l.Errorf("%d dead letters are left, expected %d", n, l.others)
	}
	seen := make([]int, l.n)
	for {
		items, err := l.jobs.PopBatch(l.Context(), client.Min, client.MaxMany)
		for _, item := range items {
			if n, err := strconv.Atoi(string(item.Payload)); err != nil || n < 0 || n >= l.n {
				l.Errorf("item %q came back", item.Payload)
			} else {
				seen[n]++
			}
		}
		if err != nil || len(items) == 0 {
			break
		}
	}
	lost, doubled := 0, 0
	for _, n := range seen {
		if n == 0 {
			lost++
		} else {
			doubled += n - 1
		}
	}
	if lost+doubled > 0 {
		l.Errorf("of %d items %d are lost and %d are there more than once", l.n, lost, doubled)
	}
}

// Work is what others do meanwhile: clients of another queue that push, lease and acknowledge as
// fast as they can.
type Work struct {
	mu    sync.Mutex
	took  []time.Duration
	stop  func()
	ended sync.WaitGroup
}

// NewWork begins with it.
func NewWork(t testing.TB, dial func() *nats.Conn, clients int) *Work {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &Work{stop: stop}
	for range clients {
		c, err := client.New(dial(), client.Timeout(testenv.Most))
		if err != nil {
			t.Fatal(err)
		}
		q := c.Queue("work")
		w.ended.Go(func() {
			for ctx.Err() == nil {
				for _, step := range []func() error{
					func() error {
						_, err := q.Push(ctx, []byte("work"))
						return err
					},
					func() error {
						item, err := q.Pop(ctx, client.Min, client.Lease(time.Minute))
						if err == nil {
							err = item.Ack(ctx)
						}
						return err
					},
				} {
					begun := time.Now()
					if step() == nil {
						w.mu.Lock()
						w.took = append(w.took, time.Since(begun))
						w.mu.Unlock()
					}
				}
			}
		})
	}
	t.Cleanup(w.Stop)
	return w
}

// Stop ends it.
func (w *Work) Stop() {
	w.stop()
	w.ended.Wait()
}

// Reset returns what steps took since it was called before: how many there were, the median and the
// 99th percentile.
func (w *Work) Reset() (n int, median, p99 time.Duration) {
	w.mu.Lock()
	took := w.took
	w.took = nil
	w.mu.Unlock()
	if len(took) == 0 {
		return 0, 0, 0
	}
	slices.Sort(took)
	return len(took), took[len(took)/2], took[len(took)*99/100]
}
