package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	"github.com/pqbridge/pqbridge/protocol"
)

// consuming are the flags of consume.
type consuming struct {
	options  client.ConsumeOptions
	max      bool
	deadExit int
	returns  bool // the standard output of the program is the result of its item
	spent    spentFiles
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
PQ_INTERRUPTIONS, PQ_RETURNS, PQ_FENCE, PQ_KEY, PQ_KEY_FENCE and PQ_COST are set,
and PQ_HEADER_<NAME> for each header. When the program
exits with 0 the item is acknowledged, otherwise it is delivered again later, and the
last line of its standard error is the reason.
While the program runs the lease is extended. Without a program the payloads are
printed.

A program that knows what this delivery has really cost writes that number to the
file $PQ_SPENT_FILE, whatever its exit code is: then the queue corrects what it has
reserved. What is no number from 0 to 1000000 there is warned of, and ignored.

With --result the standard output is the result of the item, byte for byte, if its
push asked for one; otherwise it is printed. A program whose output is too large for
a result is not run again.

After Ctrl-C pq waits for the programs that run; a second Ctrl-C kills them. With
--grace it ends them after a while, and gives their items back, which counts as no
failure.`,
		Example: `  # a worker, four at a time
  pq consume jobs --workers 4 ./work.sh

  # stop when the queue is empty
  pq consume jobs --stop-when-empty -- ./work.sh --fast

  # answer "pq push images --file photo.jpg --wait 1m"
  pq consume images --result -- convert - -resize 200 -

  # say what the work has really cost
  pq consume prompts -- sh -c './ask.sh && echo 1830 > "$PQ_SPENT_FILE"'

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
	f.BoolVar(&c.returns, "result", c.returns, "the standard output of the program is the result of its item")
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
	if c.returns && len(c.command) == 0 {
		return session.Usagef("--result keeps the output of a program: expected one")
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
	err = c.consume(client.Queue(args[0]))
	s.Say("%s handled, %s", show.Many(c.handled.Load(), "item"), show.Many(c.failed.Load(), "failure"))
	if err == nil {
		err = session.Interrupted(s.Context, s.Context.Err()) // by something else than Ctrl-C
	}
	return err
}

func (c *consuming) consume(q *client.Queue) error {
	if len(c.command) > 0 {
		if err := c.spent.open(); err != nil {
			c.logf("programs cannot say what their items have cost: %v", err)
		}
		defer c.spent.close()
	}
	if c.returns {
		return client.Work(c.session.Context, q, c.handleForResult, c.options)
	}
	return q.Consume(c.session.Context, c.handle, c.options)
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
		if err := c.exec(ctx, item, c.session.Stdout); err != nil {
			return err
		}
	} else if err := c.print(item); err != nil {
		return err
	}
	c.handled.Add(1)
	return nil
}

// handleForResult returns the output of the program.
func (c *consuming) handleForResult(ctx context.Context, _ []byte) ([]byte, error) {
	item := client.ItemOf(ctx)
	if item.ResultTTL == 0 {
		return nil, c.handle(ctx, item)
	}
	var out output
	said, err := follow(out.write, io.Discard)
	if err != nil {
		return nil, err
	}
	err = c.exec(ctx, item, said.to)
	if said.end(); err != nil {
		return nil, err
	}
	if out.cut {
		return nil, client.GiveUp(fmt.Errorf("the output of %s is too large for a result: allowed are %d bytes", c.command[0], protocol.MaxPayload))
	}
	c.handled.Add(1)
	return out.Bytes(), nil
}

// output keeps as much of a program's output as a result may have.
type output struct {
	bytes.Buffer
	cut bool
}

func (o *output) write(b []byte) {
	room := protocol.MaxPayload - o.Len()
	o.cut = o.cut || len(b) > room
	o.Write(b[:min(len(b), room)])
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
func (c *consuming) exec(ctx context.Context, item *client.Item, stdout io.Writer) error {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stdin = bytes.NewReader(item.Payload)
	errs := lastLine{out: linesOf{c}}
	said, err := follow(errs.say, errs.out)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = stdout, said.to
	spent := c.spent.next()
	cmd.Env = append(c.environment(item), "PQ_SPENT_FILE="+spent)
	cmd.WaitDelay = killAfter
	err = c.session.Programs.Run(ctx, cmd)
	said.end()
	c.noteSpent(item, spent)
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	gaveUp := errors.As(err, &exit) && exit.ExitCode() == c.deadExit && ctx.Err() == nil // otherwise pq has ended it
	if err = fmt.Errorf("%s: %w", c.command[0], err); errs.said() != "" {
		err = fmt.Errorf("%s (%w)", errs.last, err)
	}
	if gaveUp {
		return client.GiveUp(err)
	}
	return err
}

// spentFiles are files in which programs say what their items have cost. A program makes its own, so one that says nothing costs nothing.
type spentFiles struct {
	folder string // "": there is none
	last   atomic.Int64
}

func (f *spentFiles) open() (err error) {
	f.folder, err = os.MkdirTemp("", "pq-consume-")
	return err
}

func (f *spentFiles) close() {
	if f.folder != "" {
		_ = os.RemoveAll(f.folder)
	}
}

// next is the name of a file that there is not yet, so that no delivery has the cost of another one. It is "" if there can be none.
func (f *spentFiles) next() string {
	if f.folder == "" {
		return ""
	}
	return filepath.Join(f.folder, fmt.Sprint(f.last.Add(1)))
}

// noteSpent has the settlement say what the program has said of the cost of the item. The work is done, or has failed, whatever the file
// has, so a mistake in it is no failure.
func (c *consuming) noteSpent(item *client.Item, file string) {
	if file == "" {
		return
	}
	defer os.Remove(file)
	from, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(from, maxErrorLine))
		_ = from.Close()
	}
	if err != nil {
		c.logf("item %s, delivery %d: it costs what it had reserved: PQ_SPENT_FILE: %v", item.ID, item.Deliveries, err)
		return
	}
	said := strings.TrimSpace(string(text))
	spent, err := strconv.ParseInt(said, 10, 64)
	if err != nil || spent < 0 || spent > protocol.MaxCost {
		c.logf("item %s, delivery %d: it costs what it had reserved: PQ_SPENT_FILE has %q: expected a number from 0 to %d", item.ID, item.Deliveries, said, protocol.MaxCost)
		return
	}
	item.Spent(spent)
}

// linesOf writes to the standard error of pq beside its own lines.
type linesOf struct{ *consuming }

func (l linesOf) Write(b []byte) (int, error) {
	l.output.Lock()
	defer l.output.Unlock()
	return l.session.Stderr.Write(b)
}

// followed is an output of a program, which pq reads. A program may leave others running, which go on writing: what it has said itself ends
// where pq writes a mark behind it.
type followed struct {
	to, from *os.File     // what the program writes to
	own      func([]byte) // takes what the program says
	others   io.Writer    // gets what others say behind it
	mark     []byte
	ended    chan struct{} // closed when the mark was read
}

func follow(own func([]byte), others io.Writer) (*followed, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f := &followed{to: to, from: from, own: own, others: others, mark: []byte("\x00" + rand.Text() + "\x00"), ended: make(chan struct{})}
	go f.read()
	return f, nil
}

// read reads up to the mark, and then passes on what others say.
func (f *followed) read() {
	defer f.from.Close()
	var held []byte // may be the beginning of the mark
	for chunk := make([]byte, 4096); ; {
		n, err := f.from.Read(chunk)
		held = append(held, chunk[:n]...)
		own, others, ended := bytes.Cut(held, f.mark)
		if !ended && err == nil {
			own = own[:len(own)-f.begun(own)]
		}
		f.own(own)
		if ended || err != nil {
			close(f.ended)
			_, _ = f.others.Write(others)
			_, _ = io.Copy(f.others, f.from)
			return
		}
		held = append(held[:0], held[len(own):]...)
	}
}

// begun is how many bytes at the end of a text are the beginning of the mark.
func (f *followed) begun(text []byte) int {
	for n := min(len(text), len(f.mark)-1); n > 0; n-- {
		if bytes.HasPrefix(f.mark, text[len(text)-n:]) {
			return n
		}
	}
	return 0
}

// end waits until all was read that a program has said which has ended.
func (f *followed) end() {
	_, _ = f.to.Write(f.mark) // it fails only if nobody reads
	_ = f.to.Close()
	<-f.ended
}

// lastLine passes on the standard error of a program, and keeps its last line.
type lastLine struct {
	out  io.Writer
	line []byte // the one that goes on
	last string
}

// maxErrorLine bounds the line that is kept, so that the reason of a failure has room for what ended the program, too.
const maxErrorLine = 140

func (l *lastLine) say(text []byte) {
	_, _ = l.out.Write(text)
	for line := range bytes.Lines(text) {
		l.line = append(l.line, line[:min(len(line), maxErrorLine-len(l.line))]...)
		if bytes.HasSuffix(line, []byte("\n")) {
			l.keep()
			l.line = l.line[:0]
		}
	}
}

// keep keeps a line that says something.
func (l *lastLine) keep() {
	if text := bytes.TrimSpace(l.line); len(text) > 0 {
		l.last = strings.ToValidUTF8(string(text), "")
	}
}

// said is the last line when the program has ended, "" if it has said nothing.
func (l *lastLine) said() string {
	l.keep()
	return l.last
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
		fmt.Sprintf("PQ_COST=%d", max(item.Cost, 1)),
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
