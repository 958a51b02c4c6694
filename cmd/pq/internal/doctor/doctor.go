package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// Command is the command of a pq of this version.
func Command(s *session.Session, version string) *cobra.Command {
	return &cobra.Command{
		Use: "doctor [<queue>]", Args: session.Arguments(0, 1), SuggestFor: []string{"status", "health", "check"},
		Short: "find out what is wrong",
		Long: `Checks the connection to the NATS server, the bridges, their versions and stores,
the permissions of this user, the speed of the store, the clocks, the queues and
their sources and links, and says what to do about each finding: for a queue of which
nothing moves, what pq explain says. It makes a queue to try requests on, and deletes
it again. With a queue given it reads that one and changes nothing.

Exits with 1 when something does not work, such as a queue that takes no push, and
with 0 after warnings.`,
		Example: `  # as another user
  pq doctor --creds worker.creds

  # as a user who may see one queue only
  pq doctor jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			d := &doctor{session: s, version: version, sourceSpan: sourceSpan, mostQueues: mostQueues}
			if len(args) > 0 {
				d.queue = args[0]
			}
			signal.Ignore(syscall.SIGPIPE) // nobody may read to the end, and what was made has to go nevertheless
			d.examine()
			if s.NC != nil {
				s.NC.Close()
			}
			if d.failed || errors.Is(d.err, syscall.EPIPE) { // who does not read needs no words about it
				return session.ExitError(session.ExitFailed)
			}
			return d.err
		},
	}
}

// doctor goes through the checks.
type doctor struct {
	session *session.Session
	version string // of pq
	client  *client.Client
	queue   string // "": one of its own
	failed  bool
	err     error // of writing
	seen    error // the last permission error

	sourceSpan time.Duration
	mostQueues int // that are looked at
}

// verdict is the result of a check.
type verdict string

const (
	fine verdict = "ok"
	warn verdict = "warn"
	bad  verdict = "FAIL"
)

// note prints the result of a check and, unless it is good, what to do.
func (d *doctor) note(v verdict, check, format string, args ...any) {
	d.failed = d.failed || v == bad
	text := fmt.Sprintf(format, args...)
	if d.session.Global.JSON {
		d.keep(d.session.PrintJSON(map[string]string{"check": check, "verdict": strings.ToLower(string(v)), "text": text}))
		return
	}
	d.keep(d.session.Printf("%-4s  %-11s  %s", v, check, text))
}

func (d *doctor) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

// examine runs the checks. It leaves out those that cannot succeed after an earlier failure.
func (d *doctor) examine() {
	if !d.connection() {
		return
	}
	d.eavesdroppers()
	if !d.bridges() {
		return
	}
	if d.queue != "" {
		d.tryReads()
	} else {
		d.tryAll()
	}
	d.queues()
}

// connection checks the connection to the NATS server.
func (d *doctor) connection() bool {
	s := d.session
	l, from, err := s.Login()
	if err != nil {
		d.note(bad, "settings", "%v", err)
		return false
	}
	if from != "" {
		d.note(fine, "settings", "context %s", from)
	}
	nc, err := s.DialWith(func(error) {}) // the checks continue after a permission error
	if err != nil {
		d.note(bad, "connection", "%v. %s", err, session.Hint(err))
		return false
	}
	s.NC = nc
	rtt, err := nc.RTT()
	if err != nil {
		d.note(bad, "connection", "%s does not answer: %v", natsurl.Of(nc), err)
		return false
	}
	d.note(fine, "connection", "%s, nats-server %s, round trip %s, messages up to %s",
		natsurl.Of(nc), nc.ConnectedServerVersion(), show.Span(rtt), show.LimitSize(nc.MaxPayload()))
	if !nc.HeadersSupported() {
		d.note(bad, "connection", "the server knows no headers: it needs version 2.2 or newer")
	}
	if !nc.TLSRequired() && !local(nc) && l.Token+l.User+l.Creds+l.NKey+l.UserJWT != "" {
		d.note(warn, "connection", "it is not encrypted: configure TLS on the server")
	}
	d.client, err = s.Connect()
	if err != nil {
		d.note(bad, "settings", "%v", err)
	}
	return err == nil && d.inbox()
}

// inbox checks that answers can arrive: nothing else says anything otherwise.
func (d *doctor) inbox() bool {
	sub, err := d.session.NC.SubscribeSync(d.session.NC.NewInbox())
	if err != nil {
		d.note(bad, "inbox", "%s", session.WithoutPrefix(err))
		return false
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection at the latest
	if d.refused() {
		d.note(bad, "inbox", "%s. %s", session.WithoutPrefix(d.seen), d.session.InboxHint(d.seen))
		return false
	}
	return true
}

// local reports whether the server is on this machine.
func local(nc *nats.Conn) bool {
	address := nc.ConnectedAddr()
	return strings.HasPrefix(address, "127.") || strings.HasPrefix(address, "[::1]")
}

// refused reports whether there was a permission error since the last call.
func (d *doctor) refused() bool {
	nc := d.session.NC
	// The server sends a permission error before it answers a later ping.
	if err := nc.FlushTimeout(d.session.Global.Timeout); err != nil {
		return false
	}
	last := nc.LastError()
	if last == d.seen || !errors.Is(last, nats.ErrPermissionViolation) {
		return false
	}
	d.seen = last
	return true
}

// lookEvery is the pause between checks for a permission error.
const lookEvery = 20 * time.Millisecond

// try sends a request and reports whether the server permits it. It does not wait for the
// answer to a refused request.
func (d *doctor) try(do func(ctx context.Context) error) (permitted bool, err error) {
	ctx, cancel := context.WithTimeout(d.session.Context, d.session.Global.Timeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return !d.refused(), err
		case <-ticker.C:
			if d.refused() {
				cancel()
				return false, <-ended
			}
		}
	}
}
