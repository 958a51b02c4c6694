package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// session is one run of the program.
type session struct {
	ctx    context.Context
	fail   context.CancelCauseFunc // ends ctx with an error after which no request can succeed
	env    map[string]string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	global globals
	nc     *nats.Conn // nil until it is needed

	reading  io.Reader // see input
	programs processGroups

	unfinished string // what a failed command has left undone, and what to do about it
}

func newSession(ctx context.Context, env []string, stdin io.Reader, stdout, stderr io.Writer) *session {
	s := &session{stdin: stdin, stdout: stdout, stderr: stderr, env: make(map[string]string)}
	s.ctx, s.fail = context.WithCancelCause(ctx)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		s.env[name] = value
	}
	return s
}

func (s *session) close() {
	if s.nc != nil {
		s.nc.Close()
	}
	s.fail(nil)
}

// refusedFor is how long an interactive command retries a refused request.
const refusedFor = time.Second

// connect returns a client; the connection is made once.
func (s *session) connect(options ...client.Option) (*client.Client, error) {
	if s.nc == nil {
		nc, err := s.dial()
		if err != nil {
			return nil, err
		}
		s.nc = nc
	}
	defaults := []client.Option{
		client.Prefix(s.global.prefix), client.Timeout(s.global.timeout),
		client.RetryFor(min(refusedFor, s.global.timeout)),
	}
	c, err := client.New(s.nc, append(defaults, options...)...)
	if err != nil {
		return nil, &usageError{error: err}
	}
	return c, nil
}

// patience is how long commands for many items retry refused requests. It is longer than a
// restart of pqd, and than the default dedup_window, after which a queue accepts new ids.
const patience = 10 * time.Minute

// connectPatiently returns a client for such commands. A timeout on the command line
// replaces the patience: it shows that a user waits.
func (s *session) connectPatiently() (*client.Client, error) {
	if s.global.limited() {
		return s.connect(client.RetryFor(s.global.timeout))
	}
	return s.connect(client.RetryFor(patience), client.Timeout(patience))
}

// queue connects and returns a queue.
func (s *session) queue(name string) (*client.Queue, error) {
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	return c.Queue(name), nil
}
