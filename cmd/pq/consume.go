package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// consuming are the flags of consume.
type consuming struct {
	options  client.ConsumeOptions
	max      bool
	deadExit int
	command  []string
	session  *session

	output  sync.Mutex // so that lines do not mix
	handled atomic.Int64
	failed  atomic.Int64
}

func consumeCommand() *command {
	c := &consuming{options: client.ConsumeOptions{Workers: 1, Lease: 30 * time.Second}}
	return &command{
		name: "consume", args: "<queue> [<program> [<argument>...]]", min: 1, max: anyNumber, verbatim: true,
		short: "run a program for each item",
		long: `Takes items, one after another as they come, and runs a program for each. The
payload is its standard input; PQ_QUEUE, PQ_ID, PQ_PRIORITY, PQ_DELIVERIES and
PQ_FENCE are set, and PQ_HEADER_<NAME> for each header. When it exits with 0 the
item is acknowledged, otherwise it is tried again later. While it runs the lease
is extended. Without a program payloads are printed.

Ctrl-C lets what runs end; a second one does not wait for it.`,
		examples: []example{
			{"a worker, four at a time", "pq consume jobs --workers 4 ./work.sh"},
			{"what is there, and no more", "pq consume jobs --stop-when-empty ./work.sh --fast"},
			{"a shell line", `pq consume mails -- sh -c 'mail -s "$PQ_HEADER_SUBJECT" me@example.com'`},
			{"watch what comes, one by one", "pq consume jobs --json"},
		},
		flags: c.flags, run: c.run,
	}
}

func (c *consuming) flags(f *flags) {
	o := &c.options
	f.number(&o.Workers, "workers,w", "`number` of items at a time")
	f.yes(&c.max, "max", "the highest priority number first")
	f.duration(&o.Lease, "lease,l", "`duration` for which an item stays with a worker that has died")
	f.number(&o.Limit, "count,n", "stop after this `number` of items")
	f.yes(&o.StopWhenEmpty, "stop-when-empty", "stop instead of waiting for more")
	f.each(func(s string) error {
		band, err := parseBand(s)
		o.Pop = append(o.Pop, band)
		return err
	}, "band", "only priorities `low..high`; either end may be left out")
	f.number(&c.deadExit, "dead-exit", "exit `code` of the program that gives an item up at once")
	f.duration(&o.Grace, "grace", "`duration` for which programs may go on after Ctrl-C, before they are asked to stop")
}

func (c *consuming) run(s *session, args []string) error {
	c.session, c.command = s, args[1:]
	if c.options.Workers < 1 {
		return usagef("--workers %d: expected 1 or more", c.options.Workers)
	}
	if c.options.Limit < 0 {
		return usagef("--count %d: expected 1 or more", c.options.Limit)
	}
	if len(c.command) > 0 {
		if _, err := exec.LookPath(c.command[0]); err != nil {
			return usagef("the program %q: %w", c.command[0], errors.Unwrap(err))
		}
	}
	if c.max {
		c.options.End = client.Max
	}
	c.options.OnError = c.trouble
	client, err := s.connect(client.RetryFor(patience), client.Timeout(patience))
	if err != nil {
		return err
	}
	s.nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		if err != nil {
			c.tell("connection lost: %v", err)
		}
	})
	s.nc.SetReconnectHandler(func(nc *nats.Conn) { c.tell("connected to %s", nc.ConnectedUrlRedacted()) })
	err = client.Queue(args[0]).Consume(s.ctx, c.handle, c.options)
	s.say("%s handled, %s", many(c.handled.Load(), "item"), many(c.failed.Load(), "failure"))
	if err == nil {
		err = interrupted(s.ctx, s.ctx.Err()) // by something else than Ctrl-C
	}
	return err
}

func (c *consuming) trouble(item *client.Item, err error) {
	var empty *client.Error
	if item == nil && errors.As(err, &empty) && errors.Is(err, client.ErrEmpty) {
		return // it comes when there is something
	}
	if item != nil {
		c.failed.Add(1)
		err = fmt.Errorf("item %s, delivery %d: %w", item.ID, item.Deliveries, err)
	}
	c.tell("%v", err)
}

// tell writes a line for people, whole.
func (c *consuming) tell(format string, args ...any) {
	c.output.Lock()
	defer c.output.Unlock()
	fmt.Fprintf(c.session.stderr, "pq: "+format+"\n", args...)
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
	if c.session.global.json {
		return c.session.printJSON(shown(item))
	}
	return c.session.print(string(line(item.Payload)))
}
