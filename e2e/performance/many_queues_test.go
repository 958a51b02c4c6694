//go:build fdb && benchfdb

package performance_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

// A cell is a load on many queues, or on FoundationDB itself.
type cell struct {
	table   string
	kind    string
	on      spread
	through shape
}

func (c cell) String() string {
	if c.table == bareTable {
		return c.table + ": " + c.kind + ", " + c.through.String()
	}
	return c.table + ": " + c.kind + ", " + c.on.String() + ", " + c.through.String()
}

// clients are those of all bridges.
func (c cell) clients() int { return c.through.processes * c.through.clients }

// found is what a round found out about a cell.
type found struct {
	rate    float64    // a second
	took    measure    // when each client waits for its answer, and asks again
	half    measure    // at half of that rate
	batches daemonWork // of the first
}

// The tables of cells.
const (
	bareTable    = "FoundationDB"
	oneTable     = "one pqd"
	severalTable = "several pqd"
)

var (
	oneQueue       = spread{Queues: 1}
	oneSpreads     = []spread{oneQueue, {Queues: 100}, {Queues: 1000}, {Queues: 10_000}, {Queues: 10_000, Zipf: true}}
	severalSpreads = []spread{oneQueue, {Queues: 10_000, Zipf: true}}
	queueKinds     = []string{pushKind, popKind, pairKind}
	bareKinds      = []string{setKind, getKind, versionKind}
	oneShapes      = []shape{{1, 64}, {1, 256}}
)

const (
	cellWarm = 500 * time.Millisecond
	cellTime = 2 * time.Second
	halfTime = time.Second
)

// most is how often in a second clients may ask, for which there are items.
var most = map[string]int{pushKind: 50_000, popKind: 25_000, pairKind: 12_000}

// Clients push, pop, and lease and acknowledge on one queue and on many, through one bridge
// and several, beside as many clients that use FoundationDB alone.
func TestManyQueues(t *testing.T) {
	nightly.Only(t, "it measures")
	b := &manyQueues{T: t, cluster: fdbtest.New(t, 1), wanted: regexp.MustCompile(*only), found: make(map[cell][]found)}
	for range *rounds {
		for _, s := range oneShapes {
			for _, kind := range bareKinds {
				b.bare(cell{table: bareTable, kind: kind, through: s})
			}
			var cells []cell
			for _, kind := range queueKinds {
				for _, on := range oneSpreads {
					cells = append(cells, cell{oneTable, kind, on, s})
				}
			}
			b.turn(cells)
		}
		for _, on := range severalSpreads {
			for _, s := range shapes {
				var cells []cell
				for _, kind := range queueKinds {
					cells = append(cells, cell{severalTable, kind, on, s})
				}
				b.turn(cells)
			}
		}
	}
	if len(b.found) == 0 {
		t.Fatalf("-only %q matches nothing", *only)
	}
	b.report()
}

type manyQueues struct {
	*testing.T
	cluster *fdbtest.Cluster
	wanted  *regexp.Regexp
	found   map[cell][]found // in each round
}

func (b *manyQueues) bare(c cell) {
	if !b.wanted.MatchString(c.String()) {
		return
	}
	m := sum(drive(b.T, task{Kind: c.kind, Clients: c.clients(), Cluster: b.cluster.File, Prefix: fdbtest.Prefix(), Warm: cellWarm, Time: cellTime}))
	b.found[c] = append(b.found[c], found{rate: float64(m.Done) / cellTime.Seconds(), took: m})
}

// turn measures cells that have the same bridges.
func (b *manyQueues) turn(all []cell) {
	var cells []cell
	queues := make(map[spread][]string)
	for _, c := range all {
		if b.wanted.MatchString(c.String()) {
			cells = append(cells, c)
			queues[c.on] = c.on.queues()
		}
	}
	if len(cells) == 0 {
		return
	}
	name := string(fdbtest.Prefix())
	prefix := tuple.AppendString(nil, name)
	for _, names := range queues { // so that they exist
		fill(b.T, b.cluster.File, prefix, names)
	}
	server := testenv.NATS(b.T)
	var daemons []*testenv.Process
	for range cells[0].through.processes {
		daemons = append(daemons, testenv.Daemon(b.T, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+b.cluster.File+"?prefix="+name))
	}
	for _, c := range cells {
		b.found[c] = append(b.found[c], b.measure(c, server, prefix, daemons))
	}
	for _, d := range daemons {
		d.Stop(b.T)
	}
}

// measure has the clients ask as fast as they get answers, and then half as often.
func (b *manyQueues) measure(c cell, server *testenv.Server, prefix []byte, daemons []*testenv.Process) (f found) {
	l := task{
		Kind: c.kind + spreadKind, Clients: c.clients(), Connections: c.clients(), URL: server.URL(), Queues: c.on, Seed: rand.Uint64(),
		Asks: int(float64(most[c.kind]) * (cellWarm + cellTime).Seconds()), Warm: cellWarm, Time: cellTime,
	}
	b.fillFor(c, l, prefix)
	before := workOf(b.T, daemons)
	f.took = sum(drive(b.T, l))
	f.batches = workOf(b.T, daemons).less(before)
	f.rate = float64(f.took.Done) / cellTime.Seconds()

	l.Seed, l.Rate, l.Time = rand.Uint64(), f.rate/2, halfTime
	l.Asks = int(1.2*l.Rate*(cellWarm+halfTime).Seconds()) + 100 // more may arrive than usual
	b.fillFor(c, l, prefix)
	f.half = sum(drive(b.T, l))
	return f
}

// fillFor pushes what clients will pop.
func (b *manyQueues) fillFor(c cell, l task, prefix []byte) {
	if c.kind != pushKind {
		fill(b.T, b.cluster.File, prefix, l.Queues.picks(l.Seed, l.Asks))
	}
}

// daemonWork is what bridges did for requests.
type daemonWork struct {
	requests, batches, commits, conflicts float64
	busy                                  float64 // s, of batches
}

func (w daemonWork) less(o daemonWork) daemonWork {
	return daemonWork{w.requests - o.requests, w.batches - o.batches, w.commits - o.commits, w.conflicts - o.conflicts, w.busy - o.busy}
}

// workOf adds up the work of bridges so far.
func workOf(t *testing.T, daemons []*testenv.Process) (w daemonWork) {
	t.Helper()
	for _, d := range daemons {
		_, page := pqd.Get(t, d.HTTP+"/metrics")
		for name, n := range map[string]*float64{
			"pq_batch_requests_sum": &w.requests, "pq_batch_requests_count": &w.batches, "pq_transaction_seconds_sum": &w.busy,
			"pq_store_commits_total": &w.commits, "pq_store_conflicts_total": &w.conflicts,
		} {
			*n += total(t, page, name)
		}
	}
	return w
}

// total adds up a metric of all labels. A kind of work that was never done has none.
func total(t *testing.T, page, name string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(page) {
		rest, is := strings.CutPrefix(strings.TrimSpace(line), name)
		if !is || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		n, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
