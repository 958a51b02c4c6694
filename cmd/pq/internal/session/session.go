package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
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

// globals are the flags that all commands have.
type globals struct {
	context string // of the nats command, by name or as a file
	login   login
	Prefix  string
	Timeout time.Duration
	JSON    bool

	timeoutFlag *pflag.Flag
}

const defaultTimeout = 5 * time.Second

// GlobalsFrom reads the variables of the nats command, and PQ_PREFIX.
func GlobalsFrom(env map[string]string) (globals, error) {
	g := globals{
		context: env["NATS_CONTEXT"],
		Prefix:  cmp.Or(env["PQ_PREFIX"], client.DefaultPrefix),
		Timeout: defaultTimeout,
		login: login{
			Server: env["NATS_URL"], User: env["NATS_USER"], Password: env["NATS_PASSWORD"], Token: env["NATS_TOKEN"],
			Creds: env["NATS_CREDS"], NKey: env["NATS_NKEY"],
			Cert: env["NATS_CERT"], Key: env["NATS_KEY"], CA: env["NATS_CA"],
			InboxPrefix: env["NATS_INBOX_PREFIX"],
		},
	}
	if text := env["NATS_TIMEOUT"]; text != "" {
		d, err := ParseDuration(text)
		if err != nil || d == 0 {
			return g, Usagef("NATS_TIMEOUT=%q: expected a duration such as 5s", text)
		}
		g.Timeout = d
	}
	return g, nil
}

// Define makes the flags; what is set so far are their defaults, which must not
// show secrets.
func (g *globals) Define(f *pflag.FlagSet) {
	l := &g.login
	f.StringVarP(&l.Server, "server", "s", l.Server, "NATS server `URL`s, separated by commas [NATS_URL]")
	f.StringVar(&g.context, "context", g.context, "context of the nats command, by `name` [NATS_CONTEXT]")
	f.StringVar(&l.Creds, "creds", l.Creds, "credentials `file` [NATS_CREDS]")
	f.StringVar(&l.NKey, "nkey", l.NKey, "`file` with an NKey seed [NATS_NKEY]")
	f.StringVar(&l.User, "user", l.User, "user `name`, or a token if there is no password [NATS_USER]")
	f.StringVar(&l.Password, "password", l.Password, "`password` of the user [NATS_PASSWORD]")
	f.StringVar(&l.Token, "token", l.Token, "`token` to log in with [NATS_TOKEN]")
	f.StringVar(&l.Cert, "tlscert", l.Cert, "client certificate `file` [NATS_CERT]")
	f.StringVar(&l.Key, "tlskey", l.Key, "private key `file` of the certificate [NATS_KEY]")
	f.StringVar(&l.CA, "tlsca", l.CA, "`file` with certificate authorities to trust [NATS_CA]")
	f.StringVar(&l.InboxPrefix, "inbox-prefix", l.InboxPrefix, "`subject` that answers are received on [NATS_INBOX_PREFIX]")
	f.VisitAll(func(flag *pflag.Flag) { flag.DefValue = "" })
	f.BoolVar(&l.TLSFirst, "tlsfirst", l.TLSFirst, "TLS handshake before the server's greeting")
	f.StringVar(&g.Prefix, "prefix", g.Prefix, "first tokens of the bridge's `subject`s [PQ_PREFIX]")
	DurationVar(f, &g.Timeout, "timeout", "", "`duration` to wait for an answer [NATS_TIMEOUT]")
	f.BoolVar(&g.JSON, "json", g.JSON, "print a JSON object a line")
	f.BoolP("help", "h", false, "show the help of a command")
	g.timeoutFlag = f.Lookup("timeout")
}

// limited reports whether the command line has a timeout.
func (g *globals) limited() bool { return g.timeoutFlag != nil && g.timeoutFlag.Changed }

// Exit codes, as help lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	exitUsage       = 2
	ExitNothing     = 3
	ExitUnavailable = 4
	ExitIncomplete  = 5
	ExitInterrupted = 130 // as shells report Ctrl-C
)

// badRequest is the code of answers to malformed requests.
const badRequest = 400

// ExitError ends the program with a code and without a message.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var answer *client.Error
	switch {
	case errors.As(err, new(*UsageError)), errors.As(err, &answer) && answer.Code == badRequest:
		return exitUsage
	case errors.Is(err, client.ErrEmpty), errors.Is(err, client.ErrNotFound), isPending(err), answer != nil && answer.Reason == client.ReasonUnkept:
		return ExitNothing
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrBusy), errors.Is(err, nats.ErrNoServers),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrTimeout), unreachable(err):
		return ExitUnavailable
	}
	return ExitFailed
}

// isPending reports whether an item has not ended yet.
func isPending(err error) bool {
	var e *client.Error
	return errors.Is(err, client.ErrNoResultYet) && errors.As(err, &e) && (e.Code == protocol.CodeNotFound || e.Code == protocol.CodeTimeout)
}

// unreachable reports whether the server is away or does not answer. A refused login and an
// unreadable file of the login are other errors.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, new(*connectError)) && errors.As(err, &network) && !errors.As(err, new(*fs.PathError))
}

// UsageError is a mistake in how pq was called.
type UsageError struct {
	error
	Command *cobra.Command // whose help to point to
}

func Usagef(format string, args ...any) error {
	return &UsageError{error: fmt.Errorf(format, args...)}
}

func (e *UsageError) Unwrap() error { return e.error }

// CommandName is the words of a command after pq.
func CommandName(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return name
}

// AnyNumber of arguments.
const AnyNumber = -1

// Arguments checks the number of arguments and, if the first of them is a queue,
// its name.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		_, expected, _ := strings.Cut(c.Use, " ")
		queue := len(args) > 0 && strings.HasPrefix(strings.TrimPrefix(expected, "["), "<queue>")
		switch {
		case len(args) < least:
			return Usagef("found %s, expected %s", show.Many(int64(len(args)), "argument"), expected)
		case most == 0 && len(args) > 0:
			return Usagef("the argument %q: expected none", args[0])
		case most != AnyNumber && len(args) > most:
			return Usagef("the argument %q is too much: expected %s", args[most], expected)
		case queue && subjects.CheckQueue(args[0]) != nil:
			return Usagef("%w", subjects.CheckQueue(args[0]))
		}
		return nil
	}
}

// UnknownCommand names the commands that may have been meant.
func UnknownCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = MaxTypos
	if near := c.SuggestionsFor(name); name != "" && len(near) > 0 {
		return &UsageError{fmt.Errorf("no command %q: perhaps %s", name, Alternatives(c.CommandPath()+" ", near)), c}
	}
	return &UsageError{fmt.Errorf("no command %q", name), c}
}

// MaxTypos is how many letters may differ for a name to be suggested.
const MaxTypos = 2

// Alternatives joins names, each with a prefix.
func Alternatives(prefix string, names []string) string {
	return prefix + strings.Join(names, " or "+prefix)
}

// durationValue is a flag for a duration that may have days. pflag's own type has no days,
// and no message about what was expected.
type durationValue time.Duration

func (d *durationValue) String() string {
	if *d == 0 {
		return "" // help shows no default then
	}
	return show.Limit(time.Duration(*d))
}

func (d *durationValue) Set(text string) error {
	parsed, err := ParseDuration(text)
	*d = durationValue(parsed)
	return err
}

func (d *durationValue) Type() string { return "duration" }

func DurationVar(f *pflag.FlagSet, p *time.Duration, name, shorthand, usage string) {
	f.VarP((*durationValue)(p), name, shorthand, usage)
}
