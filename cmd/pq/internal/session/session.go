package session

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// Session is one run of the program.
type Session struct {
	Context context.Context
	fail    context.CancelCauseFunc // ends ctx with an error after which no request can succeed
	Env     map[string]string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Global  globals
	NC      *nats.Conn // nil until it is needed

	reading  io.Reader // see input
	Programs processGroups

	Unfinished string // what a failed command has left undone, and what to do about it
}

func New(ctx context.Context, env []string, stdin io.Reader, stdout, stderr io.Writer) *Session {
	s := &Session{Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: make(map[string]string)}
	s.Context, s.fail = context.WithCancelCause(ctx)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		s.Env[name] = value
	}
	return s
}

func (s *Session) Close() {
	if s.NC != nil {
		s.NC.Close()
	}
	s.fail(nil)
}

// refusedFor is how long an interactive command retries a refused request.
const refusedFor = time.Second

// Connect returns a client; the connection is made once.
func (s *Session) Connect(options ...client.Option) (*client.Client, error) {
	if s.NC == nil {
		nc, err := s.dial()
		if err != nil {
			return nil, err
		}
		s.NC = nc
	}
	defaults := []client.Option{
		client.Prefix(s.Global.Prefix), client.Timeout(s.Global.Timeout),
		client.RetryFor(min(refusedFor, s.Global.Timeout)),
	}
	c, err := client.New(s.NC, append(defaults, options...)...)
	if err != nil {
		return nil, Usagef("%w", err)
	}
	return c, nil
}

// Patience is how long commands for many items retry refused requests. It is longer than a
// restart of pqd, and than the default dedup_window, after which a queue accepts new ids.
const Patience = 10 * time.Minute

// ConnectPatiently returns a client for such commands. A timeout on the command line
// replaces the patience: it shows that a user waits. The first refusal is printed: otherwise
// nothing says what the command waits for.
func (s *Session) ConnectPatiently() (*client.Client, error) {
	patience := Patience
	if s.Global.limited() {
		patience = s.Global.Timeout
	}
	var once sync.Once
	return s.Connect(client.RetryFor(patience), client.Timeout(patience), client.OnRefusal(func(err error) {
		once.Do(func() {
			s.Say("pq: %s; trying again for %s, --timeout sets how long", WithoutPrefix(err), show.Span(patience))
		})
	}))
}

// Queue connects and returns a queue.
func (s *Session) Queue(name string) (*client.Queue, error) {
	c, err := s.Connect()
	if err != nil {
		return nil, err
	}
	return c.Queue(name), nil
}
