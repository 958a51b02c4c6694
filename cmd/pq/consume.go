package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// consuming are the flags of consume.
type consuming struct {
	options  client.ConsumeOptions
	max      bool
	deadExit int
	command  []string
	session  *session.Session

	output  sync.Mutex // so that lines do not mix
	handled atomic.Int64
	failed  atomic.Int64
}

func consumeCommand(s *session.Session) *cobra.Command {
	c := &consuming{session: s, options: client.ConsumeOptions{Workers: 1, Lease: 30 * time.Second}}
	cmd := &cobra.Command{
		Use: "consume <queue> [<program> [<argument>...]]", Args: session.Arguments(1, session.AnyNumber),
		Annotations: map[string]string{programFollows: "yes"},
		Short:       "run a program for each item",
		Long: `Leases items as they come and runs a program for each. The payload is its standard
input; PQ_QUEUE, PQ_ID, PQ_PRIORITY, PQ_DELIVERIES, PQ_FAILURES,
PQ_INTERRUPTIONS, PQ_RETURNS, PQ_FENCE, PQ_KEY and PQ_KEY_FENCE are set, and
PQ_HEADER_<NAME> for each header. When the program
exits with 0 the item is acknowledged, otherwise it is delivered again later, and the
last line of its standard error is the reason.
While the program runs the lease is extended. Without a program the payloads are
printed.

After Ctrl-C pq waits for the programs that run; a second Ctrl-C kills them. With
--grace it ends them after a while, and gives their items back, which counts as no
failure.`,
		Example: `  # a worker, four at a time
  pq consume jobs --workers 4 ./work.sh

  # stop when the queue is empty
  pq consume jobs --stop-when-empty -- ./work.sh --fast

  # a shell line
  pq consume mails -- sh -c 'mail -s "$PQ_HEADER_SUBJECT" me@example.com'

  # print items as JSON as they come
  pq consume jobs --json`,
		ValidArgsFunction: c.complete,
		RunE:              func(_ *cobra.Command, args []string) error { return c.run(s, args) },
	}
	c.flags(cmd.Flags())
	return cmd
}

func (c *consuming) flags(f *pflag.FlagSet) {
	o := &c.options
	f.IntVarP(&o.Workers, "workers", "w", o.Workers, "`number` of items at a time")
	f.BoolVar(&c.max, "max", c.max, "the highest priority number first")
	session.DurationVar(f, &o.Lease, "lease", "l", "`duration` after which the item of a worker that died is delivered again")
	f.IntVarP(&o.Limit, "count", "n", o.Limit, "stop after this `number` of items")
	f.BoolVar(&o.StopWhenEmpty, "stop-when-empty", o.StopWhenEmpty, "stop instead of waiting for more")
	f.Func("band", "only priorities `low..high`; either end may be left out", func(s string) error {
		band, err := session.ParseBand(s)
		o.Pop = append(o.Pop, band)
		return err
	})
	f.IntVar(&c.deadExit, "dead-exit", c.deadExit, "exit `code` of the program that makes the item a dead letter")
	f.StringVar(&o.Holder, "holder", o.Holder, "`name` that leases show as their holder; otherwise the host and the process id")
	session.DurationVar(f, &o.Grace, "grace", "", "`duration` to let programs go on after Ctrl-C, before SIGTERM")
}

// complete completes the queue, and leaves the program to the shell.
func (c *consuming) complete(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completeQueue(c.session, cmd, args, word)
}

func (c *consuming) run(s *session.Session, args []string) error {
	c.command = args[1:]
	if c.options.Workers < 1 {
		return session.Usagef("--workers %d: expected 1 or more", c.options.Workers)
	}
	if c.options.Limit < 0 {
		return session.Usagef("--count %d: expected 1 or more", c.options.Limit)
	}
	if len(c.command) > 0 {
		if _, err := exec.LookPath(c.command[0]); err != nil {
			return session.Usagef("the program %q: %w", c.command[0], errors.Unwrap(err))
		}
	}
	if c.max {
		c.options.End = client.Max
	}
	c.options.OnError = c.onError
	client, err := s.Connect(client.RetryFor(session.Patience), client.Timeout(session.Patience))
	if err != nil {
		return err
	}
	s.NC.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil {
			c.logf("connection lost: %v", err)
		}
	})
	s.NC.SetReconnectHandler(func(nc *nats.Conn) { c.logf("connected to %s", natsurl.Of(nc)) })
	sayIdle(s, client.Queue(args[0]))
	err = client.Queue(args[0]).Consume(s.Context, c.handle, c.options)
	s.Say("%s handled, %s", show.Many(c.handled.Load(), "item"), show.Many(c.failed.Load(), "failure"))
	if err == nil {
		err = session.Interrupted(s.Context, s.Context.Err()) // by something else than Ctrl-C
	}
	return err
}

// idleWait bounds how long a consumer waits to hear why nothing will come.
const idleWait = time.Second

// sayIdle tells why nothing will come: a pop that waits is silent about that. What else there is to
// say of the queue its pops say.
func sayIdle(s *session.Session, q *client.Queue) {
	ctx, stop := context.WithTimeout(s.Context, idleWait)
	defer stop()
	var nothing *client.Error
	if _, err := q.Peek(ctx, client.Min); !errors.As(err, &nothing) {
		return
	}
	switch nothing.Reason {
	case client.ReasonPaused:
		s.Say("queue %s is paused: nothing comes before it is resumed", q.Name())
	case client.ReasonUnknown:
		s.Say("queue %s does not exist yet: expected its first push, or another name", q.Name())
	}
}

func (c *consuming) onError(item *client.Item, err error) {
	var empty *client.Error
	if item == nil && (errors.As(err, &empty) && errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrNotFound)) {
		return // Consume waits for an item by itself, and sayIdle has said that there is no queue
	}
	if item != nil {
		c.failed.Add(1)
		err = fmt.Errorf("item %s, delivery %d: %w", item.ID, item.Deliveries, err)
	}
	c.logf("%v", err)
}

// logf prints a line, whole.
func (c *consuming) logf(format string, args ...any) {
	c.output.Lock()
	defer c.output.Unlock()
	c.session.Tell("pq: "+format, args...)
}

func (c *consuming) handle(ctx context.Context, item *client.Item) error {
	if len(c.command) > 0 {
		if err := c.exec(ctx, item); err != nil {
			return err
		}
	} else if err := c.print(item); err != nil {
		return err
	}
	c.handled.Add(1)
	return nil
}

func (c *consuming) print(item *client.Item) error {
	c.output.Lock()
	defer c.output.Unlock()
	if c.session.Global.JSON {
		return c.session.PrintJSON(show.Shown(item))
	}
	return c.session.PrintPayload(item.Payload)
}

// killAfter is how long a program may take to stop after SIGTERM.
const killAfter = 5 * time.Second

// exec runs the program for an item.
func (c *consuming) exec(ctx context.Context, item *client.Item) error {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stdin = bytes.NewReader(item.Payload)
	said, err := followErrors(linesOf{c})
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = c.session.Stdout, said.to
	cmd.Env = c.environment(item)
	cmd.WaitDelay = killAfter
	err = c.session.Programs.Run(ctx, cmd)
	last := said.end()
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	gaveUp := errors.As(err, &exit) && exit.ExitCode() == c.deadExit && ctx.Err() == nil // otherwise pq has ended it
	if err = fmt.Errorf("%s: %w", c.command[0], err); last != "" {
		err = fmt.Errorf("%s (%w)", last, err)
	}
	if gaveUp {
		return client.GiveUp(err)
	}
	return err
}

// linesOf writes to the standard error of pq beside its own lines.
type linesOf struct{ *consuming }

func (l linesOf) Write(b []byte) (int, error) {
	l.output.Lock()
	defer l.output.Unlock()
	return l.session.Stderr.Write(b)
}

// saidErrors passes on the standard error of a program, and keeps its last line. A program may leave others running, which go on
// writing: what it has said itself ends where pq writes a mark behind it.
type saidErrors struct {
	to, from *os.File // what the program writes to
	out      io.Writer
	mark     []byte
	ended    chan struct{} // closed when the mark was read

	line []byte // the one that goes on
	last string
}

func followErrors(out io.Writer) (*saidErrors, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &saidErrors{to: to, from: from, out: out, mark: []byte("\x00" + rand.Text() + "\x00"), ended: make(chan struct{})}
	go s.follow()
	return s, nil
}

// follow reads up to the mark, and then passes on what others say.
func (s *saidErrors) follow() {
	defer s.from.Close()
	var held []byte // may be the beginning of the mark
	for chunk := make([]byte, 4096); ; {
		n, err := s.from.Read(chunk)
		held = append(held, chunk[:n]...)
		own, others, ended := bytes.Cut(held, s.mark)
		if !ended && err == nil {
			own = own[:len(own)-s.begun(own)]
		}
		s.say(own)
		if ended || err != nil {
			s.keep()
			close(s.ended)
			_, _ = s.out.Write(others)
			_, _ = io.Copy(s.out, s.from)
			return
		}
		held = append(held[:0], held[len(own):]...)
	}
}

// begun is how many bytes at the end of a text are the beginning of the mark.
func (s *saidErrors) begun(text []byte) int {
	for n := min(len(text), len(s.mark)-1); n > 0; n-- {
		if bytes.HasPrefix(s.mark, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// maxErrorLine bounds the line that is kept, so that the reason of a failure has room for what ended the program, too.
const maxErrorLine = 140

// say takes what the program has said.
func (s *saidErrors) say(text []byte) {
	_, _ = s.out.Write(text)
	for line := range bytes.Lines(text) {
		s.line = append(s.line, line[:min(len(line), maxErrorLine-len(s.line))]...)
		if bytes.HasSuffix(line, []byte("\n")) {
			s.keep()
			s.line = s.line[:0]
		}
	}
}

// keep keeps a line that says something.
func (s *saidErrors) keep() {
	if text := bytes.TrimSpace(s.line); len(text) > 0 {
		s.last = strings.ToValidUTF8(string(text), "")
	}
}

// end returns the last line of a program that has ended, "" if it has said nothing.
func (s *saidErrors) end() string {
	_, _ = s.to.Write(s.mark) // it fails only if nobody reads
	_ = s.to.Close()
	<-s.ended
	return s.last
}

// environment has the variables about the item for a program.
func (c *consuming) environment(item *client.Item) []string {
	var env []string
	for name, value := range c.session.Env {
		env = append(env, name+"="+value)
	}
	env = append(env,
		"PQ_QUEUE="+item.Queue, "PQ_ID="+item.ID,
		fmt.Sprintf("PQ_PRIORITY=%d", item.Priority),
		fmt.Sprintf("PQ_DELIVERIES=%d", item.Deliveries),
		fmt.Sprintf("PQ_FAILURES=%d", item.Failures),
		fmt.Sprintf("PQ_INTERRUPTIONS=%d", item.Interruptions),
		fmt.Sprintf("PQ_RETURNS=%d", item.Returns),
		fmt.Sprintf("PQ_FENCE=%d", item.Fence),
		fmt.Sprintf("PQ_KEY_FENCE=%d", item.KeyFence),
		"PQ_KEY="+item.Key,
	)
	for name, values := range item.Header {
		env = append(env, "PQ_HEADER_"+variable(name)+"="+strings.Join(values, ", "))
	}
	return env
}

// variable makes a header's name one of a variable.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
