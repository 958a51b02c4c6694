package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
)

// One program with many workers, each system with its own client library, used as its pages say: what a user has whose program is one process.
// In the other tables each client has a connection, and does one thing at a time; here a library may have calls share messages.

// library is a client library of a system in one program, which all workers share.
type library interface {
	push(ctx context.Context, priority int, payload []byte) error

	// work leases and acknowledges items with so many workers, until ctx ends or there are none. handled is called for each.
	work(ctx context.Context, workers int, handled func()) error

	clear(ctx context.Context) error // removes all items
	close() error
}

const namePQDLibrary = "pqd, package client"

// libraries are the systems of that table. They sync each answer to the disk.
var libraries = []*system{
	{
		name: namePQDLibrary, how: "package client: Push without an id, as Redis has none, and Consume",
		verbs: pushAndLease, start: startPQD(), connect: connectPQD, library: openPQDLibrary,
	},
	{
		name: "go-redis, pool", program: "redis-server", pack: "redis-server", how: "a client with a pool of as many connections as workers",
		verbs: pushAndLease, start: startRedis("always"), connect: connectRedis, library: openGoRedis,
	},
	{
		name: "go-redis, AutoPipeline", program: "redis-server", pack: "redis-server", how: "the same client's AutoPipeline, as it comes",
		verbs: pushAndLease, start: startRedis("always"), connect: connectRedis, library: openAutoPipeline,
	},
	{
		name: "rueidis", program: "redis-server", pack: "redis-server", how: "as it comes: calls of all workers share connections",
		verbs: pushAndLease, start: startRedis("always"), connect: connectRedis, library: openRueidis,
	},
}

var pushAndLease = []string{verbPush, verbLease}

// libraryWorkers are how many workers the program has.
var libraryWorkers = []int{1, 8, 64}

// runLibrary takes the steps of a job with as many workers as it has clients.
func (j *job) runLibrary(open func(addr string, workers int) (library, error)) (measures []measure, err error) {
	l, err := open(j.Addr, j.Clients)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	users := load{}
	for range j.Clients {
		users.clients = append(users.clients, libraryClient{library: l})
		users.items = append(users.items, newPayloads(rand.Uint64()))
	}
	for _, s := range j.Steps {
		var m measure
		servers, own := processorTime(j.Servers), ownTime()
		if s.Verb == verbLease {
			m, err = worked(l, j.Clients, s)
		} else {
			m, err = users.take(s)
		}
		m.CPU, m.Load = processorTime(j.Servers)-servers, ownTime()-own
		if err != nil {
			return measures, fmt.Errorf("%s: %w", s.Verb, err)
		}
		measures = append(measures, m)
	}
	return measures, l.clear(context.Background())
}

// worked leases and acknowledges items until there are none, or the time is up.
func worked(l library, workers int, s step) (measure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Limit)
	defer cancel()
	var n atomic.Int64
	start := time.Now()
	err := l.work(ctx, workers, func() { n.Add(1) })
	return measure{Verb: s.Verb, Warm: s.Warm, N: int(n.Load()), Seconds: time.Since(start).Seconds()}, err
}

// libraryClient is a worker that pushes.
type libraryClient struct {
	client
	library library
}

func (c libraryClient) push(priority int, payload []byte) error {
	return c.library.push(context.Background(), priority, payload)
}

func (c libraryClient) settle() error { return nil }

// measureLibraries has the programs take turns.
func (r *runner) measureLibraries(ctx context.Context, o options) error {
	var chosen []*system
	for _, sys := range libraries {
		if sys.name == namePQDLibrary || o.only.MatchString(sys.name) {
			chosen = append(chosen, sys)
		}
	}
	defer r.killAll()
	if err := r.openAll(ctx, chosen); err != nil {
		return err
	}
	all := make(map[librarySample][]measure)
	for round := range r.plan.rounds {
		for _, workers := range libraryWorkers {
			for _, srv := range r.servers {
				srv.thaw()
				push, lease := step{Verb: verbPush, Limit: r.plan.phase}, step{Verb: verbLease, Limit: r.plan.phase}
				warm := push
				warm.Warm, warm.Limit = true, r.plan.phase/2
				measures, err := r.site.drive(ctx, srv, workers, warm, push, lease)
				srv.freeze()
				if err != nil {
					return err
				}
				for _, m := range measures {
					if !m.Warm {
						key := librarySample{srv.system.name, m.Verb, workers}
						all[key] = append(all[key], m)
					}
				}
			}
		}
		r.progress("round %d of %d", round+1, r.plan.rounds)
	}
	r.writeLibraries(all)
	return r.closeAll()
}

// librarySample is what was measured.
type librarySample struct {
	system, verb string
	workers      int
}

// writeLibraries writes the medians, and the ratios to pqd within each round.
func (r *runner) writeLibraries(all map[librarySample][]measure) {
	fmt.Printf("One program, each system's own client library, every answer on disk; medians of %d rounds; processor time of an item, of client and server\n\n", r.plan.rounds)
	t := table{{"", "workers", "push/s", "pqd is faster by", "p50", "p99", "client", "server", "lease+ack/s", "pqd is faster by", "client", "server"}}
	for _, workers := range libraryWorkers {
		for _, srv := range r.servers {
			name := srv.system.name
			row := []string{name, fmt.Sprint(workers)}
			for _, verb := range []string{verbPush, verbLease} {
				of, pqd := all[librarySample{name, verb, workers}], all[librarySample{namePQDLibrary, verb, workers}]
				middle := func(read func(i int) float64) float64 {
					var values []float64
					for i := range of {
						values = append(values, read(i))
					}
					return median(values)
				}
				each := func(spent time.Duration, n int) float64 { return float64(spent.Microseconds()) / float64(max(n, 1)) }
				row = append(row, fmt.Sprintf("%.0f", middle(func(i int) float64 { return of[i].rate() })),
					fmt.Sprintf("%.2f", middle(func(i int) float64 { return pqd[i].rate() / of[i].rate() })))
				if verb == verbPush { // how long a lease waits for its acknowledgement is the library's affair
					row = append(row, fmt.Sprintf("%.2f ms", middle(func(i int) float64 { return of[i].P50.Seconds() * 1e3 })),
						fmt.Sprintf("%.2f ms", middle(func(i int) float64 { return of[i].P99.Seconds() * 1e3 })))
				}
				row = append(row, fmt.Sprintf("%.0f µs", middle(func(i int) float64 { return each(of[i].Load, of[i].N) })),
					fmt.Sprintf("%.0f µs", middle(func(i int) float64 { return each(of[i].CPU, of[i].N) })))
			}
			t.add(row...)
		}
	}
	t.write(os.Stdout)
}
