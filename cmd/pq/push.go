package main

import (
	"bufio"
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
	"github.com/pqbridge/pqbridge/protocol"
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
	p.uniqueFlags(f)
	f.Func("result-ttl", "have the queue keep what becomes of it for this `duration` at least, up to 168h", func(s string) error {
		d, err := session.ParseDuration(s)
		p.add(client.ResultTTL(d))
		return err
	})
	f.Func("cost", "what each delivery takes of the cost rates of the queue and the key, a `number` from 1 to 1000000; 1 if not given", func(s string) error {
		cost, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return errors.New("expected a number from 1 to 1000000")
		}
		p.add(client.Cost(cost))
		return nil
	})
	session.DurationVar(f, &p.wait, "wait", "w", "wait up to this `duration` for the item to end, and show what became of it as \"pq result\" does")
	f.StringVar(&p.settles, "settle", p.settles, "acknowledge the leased item with this ack `subject` in the same transaction")
	f.StringVarP(&p.id, "id", "i", p.id, "`text` that names the push: repeating it within 2 minutes pushes nothing")
}

// uniqueFlags are those about the unique value of the item.
func (p *pushing) uniqueFlags(f *pflag.FlagSet) {
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
		s.Say("%s is pushed, and goes on: %s asks again", id, show.Command("result", []string{q.Name(), id}))
		return err
	}
	return printResult(s, show.ShownResult(q.Name(), id, r), r.Body, false)
}

// pipeline pushes many items without waiting for each answer, and stops at the
// first that fails.
type pipeline struct {
	session  *session.Session
	queue    *client.Queue
	pending  []sent           // unanswered, in the order in which they were sent
	bytes    int              // of their payloads
	room     int              // pipelineBytes, but in tests of it
	done     int64            // acknowledged, all of the first ones
	came     bool             // some item may be in the queue, also one behind a failure
	last     map[int64]uint64 // by priority, the last place in push order
	disorder int64            // items that stand before their predecessor
	doubles  int64            // items that were pushed before
	placed   bool             // items have places, whatever their order
	each     func(client.Pushed) error
	misfit   func(placement, error) error // takes items that do not fit into the queue; nil: they are failures
	progress func(done int64)
	err      error
}

// sent is an item on its way.
type sent struct {
	*client.Future
	item placement
	size int
}

// placement is an item that gets a place, with its name for people.
type placement struct {
	*client.Import
	name string
}

// pipelineDepth is how many items may be unanswered. It stays well below what
// a bridge takes of all its clients, so that none is refused and sent again out
// of order.
const pipelineDepth = 2048

// pipelineBytes is how many bytes of payloads may be unanswered: an item may have a megabyte.
const pipelineBytes = 64 << 20

func newPipeline(s *session.Session, q *client.Queue) *pipeline {
	return &pipeline{
		session: s, queue: q, room: pipelineBytes, last: make(map[int64]uint64),
		each: func(client.Pushed) error { return nil }, progress: func(int64) {},
	}
}

// push sends an item. It returns the error of this or of an earlier item, and sends no more
// items after an error.
func (p *pipeline) push(payload []byte, options ...client.PushOption) error {
	return p.send(placement{}, len(payload), func() (*client.Future, error) { return p.queue.PushAsync(p.session.Context, payload, options...) })
}

// place is push for an item that has a place.
func (p *pipeline) place(i *client.Import, name string) error {
	p.placed = true
	return p.send(placement{i, name}, len(i.Payload), func() (*client.Future, error) { return p.queue.ImportAsync(p.session.Context, i) })
}

func (p *pipeline) send(i placement, size int, item func() (*client.Future, error)) error {
	if p.err != nil {
		return p.err
	}
	for len(p.pending) >= pipelineDepth || p.bytes+size > p.room && len(p.pending) > 0 {
		if p.await((len(p.pending) + 1) / 2); p.err != nil {
			return p.err
		}
	}
	f, err := item()
	if err != nil {
		p.fail(i, err)
		return p.err
	}
	p.pending = append(p.pending, sent{f, i, size})
	p.bytes += size
	return nil
}

// finish waits for the answers that are missing. The error is the first one.
func (p *pipeline) finish() error {
	p.await(len(p.pending))
	return p.err
}

// laterError is finish, without an error that push or place has returned already.
func (p *pipeline) laterError() error {
	if p.err != nil {
		_ = p.finish() // it is the same
		return nil
	}
	return p.finish()
}

// await waits for the answers to the first n pending items.
func (p *pipeline) await(n int) {
	for _, f := range p.pending[:n] {
		p.bytes -= f.size
		pushed, err := f.Result()
		if err != nil {
			p.came = p.came || !errors.As(err, new(*client.Error)) || errors.Is(err, client.ErrUnknownResult)
			p.fail(f.item, err)
			continue
		}
		p.came = true
		if p.err != nil {
			continue // what comes after a failure is not counted
		}
		p.done++
		p.note(pushed)
		p.err = p.each(pushed)
	}
	p.pending = append(p.pending[:0], p.pending[n:]...)
	p.progress(p.done)
}

// fail notes the first failure. An item that does not fit is none where these are taken.
func (p *pipeline) fail(i placement, err error) {
	switch {
	case p.err != nil:
	case p.misfit != nil && doesNotFit(err):
		p.err = p.misfit(i, err)
	default:
		p.err = err
	}
}

// doesNotFit reports whether it is for the item alone that it was refused.
func doesNotFit(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Code == protocol.CodeBadRequest || refused.Code == protocol.CodeTooLarge)
}

// note compares an item's place with that of its predecessor.
func (p *pipeline) note(pushed client.Pushed) {
	if pushed.Duplicate {
		p.doubles++
		return
	}
	if p.placed {
		return
	}
	if pushed.Seq < p.last[pushed.Priority] {
		p.disorder++
		return
	}
	p.last[pushed.Priority] = pushed.Seq
}

// maxLine bounds the lines that are read: beyond the largest payload there is, and the
// settings of many keys in the last line of an export.
const maxLine = 64 << 20

// lines pushes each line of standard input.
func (p *pushing) lines(s *session.Session, queue string) error {
	c, err := s.ConnectPatiently()
	if err != nil {
		return err
	}
	s.HintAtInput()
	pipe := newPipeline(s, c.Queue(queue))
	if s.Global.JSON {
		pipe.each = func(a client.Pushed) error { return s.PrintJSON(show.ShownPush(queue, a)) }
	}
	bar := s.Progress("pushing", 0, show.Thousands)
	pipe.progress = bar.Set
	lines := bufio.NewScanner(s.Input())
	lines.Buffer(nil, maxLine)
	for lines.Scan() && err == nil {
		err = pipe.push([]byte(lines.Text()), p.options...)
	}
	// An error of push is the pipeline's as well.
	if err = pipe.finish(); err == nil {
		err = lines.Err()
	}
	bar.End()
	s.Say("pushed %s", show.Many(pipe.done, "item"))
	return err
}
