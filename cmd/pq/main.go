// Command pq is the command-line client of pqbridge's priority queues. It speaks
// NATS only, and finds its way there as the nats command does: by contexts, by
// NATS_* variables, by flags.
//
// It exits with 0 when all went well, 1 after a failure, 2 when it was called
// wrongly, 3 when there was nothing (an empty queue, no such item), and 4 when
// nothing was done because no bridge could do it: trying again may help.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release) // gives a second signal back its usual effect
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := newSession(ctx, env, stdin, stdout, stderr)
	defer s.close()
	return s.report(s.dispatch(args))
}
