package bridge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// BenchmarkQueues compares requests to many queues with requests to one, on the same
// bridge in the same run. Kinds and numbers of queues take turns, and the medians of the
// rounds are reported, in requests (or pairs of a lease and its acknowledgement) a second,
// and in the processor time of all that is in this process. Bare sets are transactions of
// one row each, as many at a time, on the same store.
//
//	go test ./bridge -run '^$' -bench Queues -benchtime 1x
//	PQ_TEST_ENGINE=fdb go test -tags fdb ./bridge -run '^$' -bench Queues -benchtime 1x
func BenchmarkQueues(b *testing.B) {
	for _, clients := range []int{64, 256} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			q := newQueueBench(b, clients)
			for b.Loop() {
				q.run()
			}
			q.report()
		})
	}
}

const (
	queueRounds = 7
	queuePhase  = 400 * time.Millisecond
)

// queueBench are the clients of a BenchmarkQueues, and what they measured.
type queueBench struct {
	*testing.B
	env     *testenv.Bridged
	clients []*queueClient
	rates   map[string][]float64 // a second
	costs   map[string][]float64 // µs of processor time, of clients, server and bridge
}

// queueClient remembers in which queues it has left items.
type queueClient struct {
	*nats.Conn
	left map[string][]string
}

func newQueueBench(b *testing.B, clients int) *queueBench {
	q := &queueBench{B: b, env: testenv.Bridge(b, chosen(nil)), rates: make(map[string][]float64), costs: make(map[string][]float64)}
	for range clients {
		q.clients = append(q.clients, &queueClient{q.env.NATS.Connect(b), make(map[string][]string)})
	}
	return q
}

// pickers choose the queue of a request.
var pickers = []struct {
	name string
	pick func() string
}{
	{"1", func() string { return "one" }},
	{"100", func() string { return fmt.Sprintf("hundred-%d", rand.IntN(100)) }},
	{"1000", func() string { return fmt.Sprintf("thousand-%d", rand.IntN(1000)) }},
	{"10000zipf", func() string { return fmt.Sprintf("zipf-%d", zipf[rand.IntN(len(zipf))]) }},
}

// zipf are numbers below 10,000. The first ones come most often.
var zipf = func() (numbers [1 << 16]uint64) {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 0)), 1.1, 1, 9_999)
	for i := range numbers {
		numbers[i] = z.Uint64()
	}
	return numbers
}()

func (q *queueBench) run() {
	for round := range queueRounds {
		for i := range pickers {
			p := pickers[(i+round)%len(pickers)]
			q.measure("push-"+p.name, func(c *queueClient) error { return c.push(p.name, p.pick()) })
			q.measure("pair-"+p.name, func(c *queueClient) error { return c.pair(p.name) })
		}
		q.measure("set", func(*queueClient) error { return q.set() })
	}
}

// measure has every client repeat a request for a while.
func (q *queueBench) measure(name string, do func(*queueClient) error) {
	var wg sync.WaitGroup
	done := make([]int, len(q.clients))
	begin, used := time.Now(), now().cpu
	for i, c := range q.clients {
		wg.Go(func() {
			for time.Since(begin) < queuePhase {
				if err := do(c); err != nil {
					q.Errorf("%s: %v", name, err)
					return
				}
				done[i]++
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	all := 0
	for _, n := range done {
		all += n
	}
	q.rates[name] = append(q.rates[name], float64(all)/took.Seconds())
	q.costs[name] = append(q.costs[name], float64((now().cpu-used).Microseconds())/float64(all))
}

func (c *queueClient) push(kind, queue string) error {
	answer, err := c.Request("pq."+queue+".push", make([]byte, 100), testenv.Patience())
	if err == nil && answer.Header != nil {
		err = fmt.Errorf("push: %v", answer.Header)
	}
	c.left[kind] = append(c.left[kind], queue)
	return err
}

// pair leases an item where the client has left one, and acknowledges it.
func (c *queueClient) pair(kind string) error {
	left := c.left[kind]
	if len(left) == 0 { // this client was served less often while it pushed
		return c.push(kind, kind)
	}
	queue := left[len(left)-1]
	c.left[kind] = left[:len(left)-1]
	answer, err := c.RequestMsg(&nats.Msg{Subject: "pq." + queue + ".pop.min", Header: h("PQ-Lease", "1m")}, testenv.Patience())
	if err != nil {
		return err
	}
	if answer.Reply == "" {
		return fmt.Errorf("lease: %v", answer.Header)
	}
	settled, err := c.Request(answer.Reply, nil, testenv.Patience())
	if err == nil && settled.Header != nil {
		err = fmt.Errorf("acknowledgement: %v", settled.Header)
	}
	return err
}

// set is a transaction of one row that no queue has.
func (q *queueBench) set() error {
	session := q.env.Store.Session()
	defer session.Release()
	return session.Update(context.Background(), func(tx kv.Tx) error {
		tx.Max([]byte(fmt.Sprintf("bench/%d", rand.Uint64())), 1)
		return nil
	})
}

func (q *queueBench) report() {
	q.ReportMetric(0, "ns/op")
	for name, rates := range q.rates {
		costs := q.costs[name]
		slices.Sort(rates)
		slices.Sort(costs)
		q.ReportMetric(rates[len(rates)/2], name+"/s")
		q.ReportMetric(costs[len(costs)/2], name+"-µs")
	}
	median := func(name string) float64 { return q.rates[name][len(q.rates[name])/2] }
	for name := range q.rates {
		if kind, _, is := strings.Cut(name, "-"); is {
			q.ReportMetric(median(name)/median(kind+"-1"), name+"-of-1")
		}
	}
	q.ReportMetric(median("pair-1")/median("push-1"), "pairs-of-pushes")
	q.ReportMetric(median("push-1")/median("set"), "pushes-of-sets")
}
