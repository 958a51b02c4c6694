package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// bullMQ is a queue of BullMQ 5. A job is a hash; its id stands in the list or the sorted set of
// its state.
type bullMQ struct {
	*database
	Options
	queue  string
	prefix string // of the queue's keys
}

func openBullMQ(queue string, o Options) (Source, error) {
	r, err := dialRedis(o.Redis)
	if err != nil {
		return nil, err
	}
	return &bullMQ{r, o, queue, cmp.Or(o.Prefix, "bull") + ":" + queue + ":"}, nil
}

// The states of a job, which are keys of the queue, in the order in which jobs are handed out.
var (
	bullLists = []string{"wait", "paused"}
	bullSets  = []string{"prioritized", "delayed"}
)

func (b *bullMQ) Census(ctx context.Context) (c Census, err error) {
	count := func(state, command string) (n int64) {
		if err == nil {
			n, err = b.count(ctx, command, b.prefix+state)
		}
		return n
	}
	if known := count("meta", "EXISTS"); err == nil && known == 0 {
		return c, fmt.Errorf("no key %smeta is in Redis: expected the name of a queue", b.prefix)
	}
	if b.Failed {
		c.Jobs = count("failed", "ZCARD")
		return c, err
	}
	if err == nil {
		c.Paused, err = redis.Bool(b.do(ctx, "HEXISTS", b.prefix+"meta", "paused"))
	}
	for _, state := range bullLists {
		c.Jobs += count(state, "LLEN")
	}
	for _, state := range bullSets {
		c.Jobs += count(state, "ZCARD")
	}
	if c.Held = count("active", "LLEN"); b.Held {
		c.Jobs += c.Held
	}
	for _, left := range []struct {
		n    int64
		what string
	}{
		{count("waiting-children", "ZCARD"), "wait for the jobs of their flows"},
		{count("failed", "ZCARD"), "have failed: --failed imports them as dead letters"},
		{count("completed", "ZCARD"), "are completed"},
		{count("repeat", "ZCARD"), `are job schedulers: "pq schedule set" makes schedules`},
	} {
		if left.n > 0 {
			c.Left = append(c.Left, fmt.Sprintf("%d %s", left.n, left.what))
		}
	}
	return c, err
}

func (b *bullMQ) Each(ctx context.Context, job func(Job) error) error {
	if b.Failed {
		return b.set(ctx, "failed", job)
	}
	lists := bullLists
	if b.Held {
		lists = append([]string{"active"}, lists...) // they were taken first
	}
	for _, state := range lists {
		err := b.fromTheEnd(ctx, b.prefix+state, func(ids []string) error { return b.jobs(ctx, state, ids, nil, job) })
		if err != nil {
			return err
		}
	}
	for _, state := range bullSets {
		if err := b.set(ctx, state, job); err != nil {
			return err
		}
	}
	return nil
}

func (b *bullMQ) set(ctx context.Context, state string, job func(Job) error) error {
	return b.byScore(ctx, b.prefix+state, func(found []scored) error {
		ids, scores := make([]string, len(found)), make([]float64, len(found))
		for i, z := range found {
			ids[i], scores[i] = z.Member, z.Score
		}
		return b.jobs(ctx, state, ids, scores, job)
	})
}

// jobs reads some jobs of one state. One that has gone since, or a marker among the ids, has
// no hash.
func (b *bullMQ) jobs(ctx context.Context, state string, ids []string, scores []float64, job func(Job) error) error {
	for len(ids) > hashPage {
		some := scores
		if scores != nil {
			some, scores = scores[:hashPage], scores[hashPage:]
		}
		if err := b.jobs(ctx, state, ids[:hashPage], some, job); err != nil {
			return err
		}
		ids = ids[hashPage:]
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = b.prefix + id
	}
	hashes, err := b.hashes(ctx, keys)
	if err != nil {
		return err
	}
	for i, id := range ids {
		fields := hashes[i]
		if fields["name"] == "" && fields["data"] == "" {
			continue
		}
		item, wrong := b.item(id, fields)
		switch state {
		case "delayed":
			// Behind the time there is a count of jobs that are due at it.
			item.NotBefore = time.UnixMilli(int64(scores[i]) / 0x1000)
		case "failed":
			item.Dead = &client.Death{
				Reason: shorten(fields["failedReason"], maxDeadReason), Origin: b.queue, OriginID: id, At: time.UnixMilli(int64(scores[i])), Deliveries: int64(item.Deliveries),
			}
		}
		if err := job(Job{item, fmt.Sprintf("job %q", id), wrong}); err != nil {
			return err
		}
	}
	return nil
}

// item is a job as an item. Priority 0 is handed out before 1. Ids begin again in each Redis, each database and under each
// prefix, and when a queue is deleted, so its unique value has where it was, and when it was added.
func (b *bullMQ) item(id string, fields map[string]string) (*client.Import, error) {
	number := func(name string) (n int64, err error) {
		if text := fields[name]; text != "" {
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				err = fmt.Errorf("%s is %q: expected a number", name, text)
			}
		}
		return n, err
	}
	item := &client.Import{
		Payload: []byte(fields["data"]), Header: nats.Header{},
		Unique: fmt.Sprintf("bullmq:%s:%s%s:%s", b.place, b.prefix, id, fields["timestamp"]),
	}
	setText(item.Header, "BullMQ-Name", fields["name"])
	setText(item.Header, "BullMQ-Id", id)
	var err error
	if item.Priority, err = number("priority"); err != nil {
		return item, err
	}
	attempts, err := number("atm")
	if err == nil && fields["atm"] == "" {
		attempts, err = number("attemptsMade") // before version 5
	}
	if err != nil {
		return item, err
	}
	item.Deliveries = int(attempts)
	pushed, err := number("timestamp")
	if err == nil && pushed > 0 {
		item.Pushed = time.UnixMilli(pushed)
	}
	began, bad := number("processedOn")
	if text := fields["failedReason"]; text != "" && attempts > 0 && began > 0 {
		at := time.UnixMilli(began)
		item.Attempts = []client.Attempt{{N: attempts, Start: at, End: at, Outcome: protocol.OutcomeNack, Reason: shorten(text, protocol.MaxReason)}}
	}
	return item, errors.Join(err, bad)
}

// setText sets a header to a text, of which it carries one line without spaces at its ends.
func setText(h nats.Header, name, text string) {
	if text = strings.Join(strings.Fields(text), " "); text != "" {
		h.Set(name, text)
	}
}
