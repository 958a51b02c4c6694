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

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	s := session.New(ctx, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ends()...)
	go func() {
		<-signals
		stop()
		<-signals // a second one ends pq at once
		s.Programs.Kill()
		os.Exit(session.ExitInterrupted)
	}()
	os.Exit(execute(s, os.Args[1:]))
}

// ends are the signals that end pq. A closed terminal sends SIGHUP, which ends pq unless it
// was started with nohup.
func ends() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// run is the program, signals aside: it returns the exit code.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(session.New(ctx, env, stdin, stdout, stderr), args)
}

// execute runs a command and returns the exit code.
func execute(s *session.Session, args []string) int {
	defer s.Close()
	return s.Report(command(s, args))
}
