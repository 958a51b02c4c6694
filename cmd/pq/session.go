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
	fail   context.CancelCauseFunc // ends ctx with what makes going on pointless
	env    map[string]string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	global globals
	nc     *nats.Conn // nil until it is needed

	reading  io.Reader // see input
	programs processGroups

	unfinished string // what a command that failed has left behind, and what to do about it
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

// refusedFor is how long an interactive command tries again what was
// refused.
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

// patience is for how long commands that work through much on their own try
// again what was refused: they ride out restarts, and what a queue remembers
// message ids for.
const patience = 10 * time.Minute

// connectPatiently returns a client for such commands. A timeout on the command line says
// that a user waits all the same.
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
