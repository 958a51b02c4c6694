package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Running are the services of pqd that run, in the order in which they started.
type Running []service

type service struct {
	stopping string // what failed if stop fails
	stop     func() error
}

// Add adds a service that has started. stopping says what failed if stop fails.
func (p *Running) Add(stopping string, stop func() error) {
	*p = append(*p, service{stopping, stop})
}

// InBackground adds a service that runs until its context ends.
func (p *Running) InBackground(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	p.Add("stop a background task", func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// Stop stops all services in reverse order and returns what failed.
func (p *Running) Stop() (err error) {
	for _, service := range slices.Backward(*p) {
		if failure := service.stop(); failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", service.stopping, failure))
		}
	}
	return err
}

// AbortOnPanic makes a panic end the process by SIGABRT. By default Go exits with 2, pqd's
// code for wrong settings, and a service manager would not start pqd again. SIGQUIT still
// prints the stacks of all goroutines and ends the process. Go's own handler would then
// take seconds for each thread.
func AbortOnPanic() {
	debug.SetTraceback("crash")
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		const withStacks = 2
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, withStacks) // pqd ends whether or not this succeeds
		os.Exit(1)
	}()
}

// spareProcessors is how many more threads run Go code than by default. With the embedded
// store one thread is nearly always in a sync of the log. It counts as running until Go's
// monitor notices, 20 µs later or more.
const spareProcessors = 2

// AddSpareProcessors adds them, unless the operator has set GOMAXPROCS. From then on
// Go does not follow changes of a container's limit.
func AddSpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}

// ShutdownLimit is below the time after which service managers kill a process.
const ShutdownLimit = 10 * time.Second

// Parts of ShutdownLimit. The rest is for closing the store.
const (
	TellLimit  = 2 * time.Second // for the embedded NATS server to announce its stop; it may first give leaderships away for a second
	DrainLimit = 7 * time.Second // for answers to reach the NATS server
	ReadLimit  = 9 * time.Second // and from there, if it is embedded, the clients
)

// Await returns the error from done, or an error if none comes within the limit after ctx
// has ended.
func Await(ctx context.Context, done <-chan error, limit time.Duration) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("shutdown took longer than %s; acknowledged items are safe", limit)
	}
}

const (
	// ballastMost is the ballast of a heap without a limit.
	ballastMost = 64 << 20

	// ballastLeast is the smallest ballast that makes a difference.
	ballastLeast = 32 << 20

	// ballastPart: the ballast is at most this part of GOMEMLIMIT, which includes it.
	ballastPart = 8
)

// NewBallast returns memory that is never touched, so it takes none of the machine's
// memory. But Go counts it: Go collects garbage when the heap has doubled. Under load
// some 4 MB are in use, and Go would collect 20 times a second, which is 2 to 3 % of all
// work and more with leases. With the ballast Go collects once a second, and keeps up to
// 70 MB more of garbage.
func NewBallast() []byte {
	size := min(ballastMost, debug.SetMemoryLimit(-1)/ballastPart)
	if os.Getenv("GOGC") != "" || size < ballastLeast {
		return nil
	}
	return make([]byte, size)
}
