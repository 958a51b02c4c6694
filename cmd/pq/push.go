package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// keptFor is how long the queue keeps the result for which push waits. It counts from the end of the item on, however long it waits before.
const keptFor = 10 * time.Minute

// pushing are the flags of push.
type pushing struct {
	options []client.PushOption
	header  nats.Header
	files   []string
	id      string
	wait    time.Duration // for the end of the item; 0: not at all
	settles string        // ack subject
	item    *client.Item  // with that subject
}

func pushCommand(s *session.Session) *cobra.Command {
	p := &pushing{header: make(nats.Header)}
	c := &cobra.Command{
		Use: "push <queue> [<payload>...]", Args: session.Arguments(1, session.AnyNumber),
		Short: "add items to a queue",
		Long: `Adds each payload as an item and prints its id when it is on disk. The payload
"-" is standard input, where each line is an item: their number is printed at the
end, their ids only with --json.`,
		Example: `  # an urgent item
  pq push jobs 'put out the fire' -p -5

  # not before tomorrow, and not after a week
  pq push jobs 'call back' --delay 1d --ttl 7d

  # a file, with a header
  pq push images --file photo.jpg -H Content-Type:image/jpeg

  # each line an item
  seq 1000 | pq push numbers -

  # an item of a tenant, who has three turns for each one of the others
  pq push reports 'for Ann' --key ann --weight 3

  # once, even if repeated
  pq push reports 'for May' --id report-may

  # one job a document: as long as one is there, another push adds none
  pq push index 'document 7' --unique 7 --on-conflict raise -p 1

  # wait for its end, and print the result
  pq push jobs 'paint the fence' --wait 1m

  # the next stage of a job: the job is acknowledged in the same transaction
  pq push mails 'to Ann' --settle pq.jobs.ack.…`,
		RunE: func(_ *cobra.Command, args []string) error { return p.run(s, args) },
	}
	p.flags(c.Flags())
	return c
}

func (p *pushing) add(o client.PushOption) { p.options = append(p.options, o) }

func (p *pushing) flags(f *pflag.FlagSet) {
	f.FuncP("priority", "p", "its priority, a `number`; the queue's default if not given", func(s string) error {
		priority, err := session.ParsePriority(s)
		p.add(client.Priority(priority))
		return err
	})
	f.FuncP("delay", "d", "keep it back for this `duration`", func(s string) error {
		d, err := session.ParseDuration(s)
		p.add(client.Delay(d))
		return err
	})
	f.Func("not-before", "keep it back until a `time` such as 2030-01-02T15:04:05Z", func(s string) error {
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return errors.New("expected a time such as 2030-01-02T15:04:05Z")
		}
		p.add(client.NotBefore(t))
		return nil
	})
	f.Func("ttl", "drop it when it is not taken within this `duration`", func(s string) error {
		d, err := session.ParseDuration(s)
		p.add(client.TTL(d))
		return err
	})
	f.FuncP("header", "H", "header to travel with it, `name:value`; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, ":")
		if !ok {
			return errors.New("expected <name>:<value>")
		}
		p.header.Add(strings.TrimSpace(key), strings.TrimSpace(value))
		return nil
	})
	f.FuncP("file", "f", "a `file`'s content as an item, - for standard input; may be repeated", func(s string) error {
		p.files = append(p.files, s)
		return nil
	})
	f.FuncP("key", "k", "whose item it is, a `text`: the queue's limits, order, turns and rates go by it", func(s string) error {
		p.add(client.Key(s))
		return nil
	})
	f.Func("weight", "share of that key where keys take turns, a `number` from 1 to 1000", func(s string) error {
		weight, err := strconv.Atoi(s)
		if err != nil {
			return errors.New("expected a number from 1 to 1000")
		}
		p.add(client.Weight(weight))
		return nil
	})
	f.Func("unique", "`value` that one item of the queue has at a time: while one is there, pushing adds none", func(s string) error {
		p.add(client.Unique(s))
		return nil
	})
	f.Func("on-conflict", "`what` becomes of the item with that value: keep (the default), replace its content, or raise it to this priority", func(s string) error {
		c := client.Conflict(s)
		p.add(client.OnConflict(c))
		if c != client.Keep && c != client.Replace && c != client.Raise {
			return errors.New("expected keep, replace or raise")
		}
		return nil
	})
	f.Func("unique-until", "`leased`: the item has its value until it is leased first", func(s string) error {
		p.add(client.UniqueUntilLeased())
		if s != client.UntilLeased {
			return errors.New("expected leased")
		}
		return nil
	})
	f.Func("result-ttl", "have the queue keep what becomes of it for this `duration` at least, up to 168h", func(s string) error {
		d, err := session.ParseDuration(s)
		p.add(client.ResultTTL(d))
		return err
	})
	session.DurationVar(f, &p.wait, "wait", "w", "wait up to this `duration` for the item to end, and show what became of it as \"pq result\" does")
	f.StringVar(&p.settles, "settle", p.settles, "acknowledge the leased item with this ack `subject` in the same transaction")
	f.StringVarP(&p.id, "id", "i", p.id, "`text` that names the push: repeating it within 2 minutes pushes nothing")
}

func (p *pushing) run(s *session.Session, args []string) error {
	queue, payloads := args[0], args[1:]
	if len(payloads)+len(p.files) == 0 {
		return session.Usagef("nothing to push: expected a payload, - to read lines, or --file")
	}
	one := len(payloads)+len(p.files) == 1 && !slices.Contains(payloads, "-")
	if p.id != "" {
		if !one {
			return session.Usagef("--id names one item: expected one payload")
		}
		p.add(client.MsgID(p.id))
	}
	if p.settles != "" && !one {
		return session.Usagef("--settle acknowledges one item: expected one payload")
	}
	if p.wait > 0 {
		if !one {
			return session.Usagef("--wait waits for one item: expected one payload")
		}
		p.options = append([]client.PushOption{client.ResultTTL(keptFor)}, p.options...) // or what --result-ttl says
	}
	p.add(client.Header(p.header))
	c, err := s.Connect()
	if err != nil {
		return err
	}
	if p.settles != "" {
		if p.item, err = c.Attach(p.settles); err != nil {
			return session.Usagef("%w", err)
		}
	}
	q := c.Queue(queue)
	for _, payload := range payloads {
		if payload == "-" {
			err = p.lines(s, queue)
		} else {
			err = p.push(s, q, []byte(payload))
		}
		if err != nil {
			return err
		}
	}
	for _, file := range p.files {
		payload, err := s.Read(file)
		if err != nil {
			return err
		}
		if err := p.push(s, q, payload); err != nil {
			return err
		}
	}
	return nil
}

// addItem adds an item, in the place of the leased one if there is one.
func (p *pushing) addItem(ctx context.Context, q *client.Queue, payload []byte) (client.Pushed, error) {
	if p.item != nil {
		return p.item.HandOver(ctx, q, payload, p.options...)
	}
	return q.Push(ctx, payload, p.options...)
}

func (p *pushing) push(s *session.Session, q *client.Queue, payload []byte) error {
	a, err := p.addItem(s.Context, q, payload)
	if err != nil {
		return err
	}
	switch {
	case a.Duplicate:
		s.Say("it is there, or was pushed before: not added again")
	case a.Evicted:
		s.Say("the queue is full: it was dropped as the least urgent item")
	}
	if p.wait > 0 {
		return p.await(s, q, a.ID)
	}
	return s.Answer(show.ShownPush(q.Name(), a), "%s", a.ID)
}

// await prints what becomes of the item.
func (p *pushing) await(s *session.Session, q *client.Queue, id string) error {
	r, err := q.AwaitResult(s.Context, id, p.wait)
	if err != nil {
		s.Say("%s is pushed, and has not ended: %s asks again", id, show.Command("result", []string{q.Name(), id}))
		return err
	}
	return printResult(s, show.ShownResult(q.Name(), id, r), r.Body, false)
}
