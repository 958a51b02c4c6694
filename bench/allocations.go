package main

import (
	"context"
	"fmt"
	"time"
)

// allocationRuns is how many operations the count is taken over.
const (
	allocationRuns    = 40_000
	allocationClients = 64
)

// allocations counts the heap objects that pqd makes for a push and a pop,
// less those of an echo on the same server: what is left is the bridge's, the
// core's and the store's. The echo's count is that of the server, in pqd, plus
// that of the echo's own NATS client.
func (r *runner) allocations(ctx context.Context) error {
	pqd, echo := r.server(namePQD), r.server(nameEcho)
	if pqd == nil || echo == nil {
		return nil
	}
	echo.thaw()
	defer echo.freeze()
	count := func(verb string, srv *server, n func() (float64, error)) (float64, error) {
		before, err := n()
		if err != nil {
			return 0, err
		}
		measures, err := r.site.drive(ctx, srv, allocationClients, step{Verb: verb, N: allocationRuns, Limit: time.Minute})
		if err != nil {
			return 0, err
		}
		after, err := n()
		return (after - before) / float64(measures[0].N), err
	}
	server := func() (float64, error) { return pqd.allocations(ctx) }
	both := func() (float64, error) {
		a, err := server()
		if err != nil {
			return 0, err
		}
		b, err := echoAllocations(echo.addr)
		return a + b, err
	}
	limit, err := count(verbPush, echo, both)
	if err != nil {
		return fmt.Errorf("allocations: %w", err)
	}
	r.results.Allocations = map[string]float64{nameEcho: limit}
	for _, verb := range []string{verbPush, verbPop} {
		n, err := count(verb, pqd, server)
		if err != nil {
			return fmt.Errorf("allocations: %w", err)
		}
		r.results.Allocations[verb] = n - limit
	}
	return nil
}
