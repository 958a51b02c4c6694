//go:build fdb && benchfdb

package performance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
)

// A spread says which queues clients ask.
type spread struct {
	Queues int
	Zipf   bool // the first ones most often, by Zipf's law with exponent 1.1; otherwise each as often
}

func (s spread) String() string {
	if s.Zipf {
		return thousands(s.Queues) + " Zipf"
	}
	return thousands(s.Queues)
}

// queues are the names of all queues.
func (s spread) queues() (names []string) {
	kind := "even"
	if s.Zipf {
		kind = "zipf"
	}
	for i := range s.Queues {
		names = append(names, fmt.Sprintf("%s-%d-%d", kind, s.Queues, i))
	}
	return names
}

// picks are queues in the order in which clients ask them. A seed always gives the same
// ones, so that what clients will pop can be pushed before.
func (s spread) picks(seed uint64, n int) []string {
	names := s.queues()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func() uint64 { return random.Uint64N(uint64(s.Queues)) }
	if s.Zipf {
		pick = rand.NewZipf(random, 1.1, 1, uint64(s.Queues-1)).Uint64
	}
	all := make([]string, n)
	for i := range all {
		all[i] = names[pick()]
	}
	return all
}

// The kinds of work on a spread of queues.
const (
	pushKind = "push"
	popKind  = "pop"
	pairKind = "pair" // a lease, and its acknowledgement, both answered
)

func init() {
	kinds[pushKind+spreadKind] = func(t *testing.T, l task) work { return askQueues(t, l, pushTo) }
	kinds[popKind+spreadKind] = func(t *testing.T, l task) work { return askQueues(t, l, popFrom) }
	kinds[pairKind+spreadKind] = func(t *testing.T, l task) work { return askQueues(t, l, leaseFrom) }
}

const spreadKind = " of many queues"

// askQueues are clients that ask the picks of the load one after another.
func askQueues(t *testing.T, l task, ask func(nc *nats.Conn, queue string, i int64) error) work {
	connection := connections(t, l)
	picks := l.Queues.picks(l.Seed, l.Asks)
	var asked atomic.Int64
	return work{client: func() func() error {
		nc := connection()
		return func() error {
			i := asked.Add(1) - 1
			if i >= int64(len(picks)) {
				return fmt.Errorf("all %d items were asked for: this machine needs more", len(picks))
			}
			return ask(nc, picks[i], i)
		}
	}}
}

func pushTo(nc *nats.Conn, queue string, i int64) error {
	_, err := answerTo(nc, &nats.Msg{Subject: fmt.Sprintf("pq.%s.push.%d", queue, i%priorities), Data: payload()})
	return err
}

func popFrom(nc *nats.Conn, queue string, _ int64) error {
	_, err := answerTo(nc, &nats.Msg{Subject: "pq." + queue + ".pop.min"})
	return err
}

func leaseFrom(nc *nats.Conn, queue string, _ int64) error {
	item, err := answerTo(nc, &nats.Msg{Subject: "pq." + queue + ".pop.min", Header: nats.Header{"PQ-Lease": {"1m"}}})
	if err != nil {
		return err
	}
	_, err = answerTo(nc, &nats.Msg{Subject: item.Reply})
	return err
}

const (
	fillBatch    = 500 // items, a transaction
	fillSessions = 8   // that push at the same time
)

// fill pushes an item to each of the queues, which may be named several times.
func fill(t *testing.T, cluster string, prefix []byte, queues []string) {
	t.Helper()
	db, err := fdb.Open(cluster, fdb.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	batches := make(chan []string)
	var wg sync.WaitGroup
	for range fillSessions {
		wg.Go(func() {
			session := store.Session()
			defer session.Release()
			for batch := range batches {
				if err := session.Update(t.Context(), func(tx kv.Tx) error { return fillIn(tx, store, batch) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	// A transaction has all items of few queues in place of some of many.
	for batch := range slices.Chunk(slices.Sorted(slices.Values(queues)), fillBatch) {
		batches <- batch
	}
	close(batches)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// fillIn does it in one transaction. The names of queues are sorted.
func fillIn(tx kv.Tx, store *fdbpq.Store, queues []string) error {
	items := make([]fdbpq.NewItem, len(queues))
	for i := range items {
		items[i] = fdbpq.NewItem{Payload: payload(), Priority: int64(i % priorities), HasPriority: true}
		store.Queue(queues[i]).PrefetchPush(tx)
	}
	for begin, end := 0, 0; begin < len(queues); begin = end {
		for end = begin; end < len(queues) && queues[end] == queues[begin]; end++ {
		}
		if _, err := store.Queue(queues[begin]).Push(tx, items[begin:end]...); err != nil {
			return err
		}
	}
	return nil
}
