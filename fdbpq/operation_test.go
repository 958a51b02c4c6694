package fdbpq_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fault"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// operation is something that can be done to a store and to the model. Of run,
// look and whole it has one: what runs in a transaction, what looks at the
// store, and what has transactions of its own.
type operation struct {
	name   string
	run    func(p *process, tx kv.Tx) (outcome, error)
	look   func(p *process, r kv.Reader) (outcome, error)
	whole  func(ctx context.Context, p *process) (outcome, error)
	expect func(m *model, at moment, got outcome) outcome
}

// kindOf names what an error says. Errors that nobody should meet keep their
// text, so that no expectation fits them.
func kindOf(err error) string {
	var lost *fdbpq.LostError
	var config *fdbpq.ConfigError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &lost):
		return "lost: " + string(lost.Reason)
	case errors.As(err, &config):
		return "config"
	case errors.Is(err, fdbpq.ErrPopIDReused):
		return "replay"
	case errors.Is(err, fdbpq.ErrRemembered):
		return "remembered"
	case errors.Is(err, fdbpq.ErrNoQueue):
		return "no queue"
	case errors.Is(err, fdbpq.ErrContent):
		return "content"
	case errors.Is(err, fdbpq.ErrTime):
		return "time"
	case errors.Is(err, fdbpq.ErrFull):
		return "full"
	case errors.Is(err, fdbpq.ErrOccupied):
		return "occupied"
	case errors.Is(err, fdbpq.ErrPlace):
		return "place"
	}
	return "unexpected: " + err.Error()
}

// digest stands for content, which may be long.
func digest[T string | []byte](content T) string {
	if len(content) <= 40 {
		return string(content)
	}
	return fmt.Sprintf("%d bytes, sum %08x", len(content), crc32.ChecksumIEEE([]byte(content)))
}

// placeOf reads the place out of an id: the recipe's key.
func placeOf(id string) modelItem {
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return modelItem{}
	}
	priority, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return modelItem{}
	}
	seq, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return modelItem{}
	}
	return modelItem{priority: priority, seq: seq, tie: string(rest)}
}

func viewOf(item *fdbpq.Item) itemView {
	v := itemView{
		ID: item.ID.String(), Seq: item.Seq, Priority: item.Priority,
		Payload: digest(item.Payload), Headers: digest(item.Headers), Size: item.Size,
		Pushed: item.Pushed.UnixNano(), Deliveries: item.Deliveries,
	}
	if item.Dead != nil {
		v.Dead = *item.Dead
	}
	if l := item.Lease; l != nil {
		v.Fence, v.Expires, v.queue, v.token = l.Fence, l.Expires.UnixNano(), l.Queue, string(l.Token())
	}
	return v
}

func storedViewOf(stored *fdbpq.StoredItem) itemView {
	v := viewOf(&stored.Item)
	v.State, v.Due, v.Fence, v.Until = stored.State, stored.Due, stored.Fence, stored.Expires
	return v
}

func poppedOf(popped fdbpq.Popped) outcome {
	out := outcome{Reason: popped.Reason, Ready: popped.Ready, More: popped.More, Events: eventsOf(popped.Events)}
	for i := range popped.Items {
		out.Items = append(out.Items, viewOf(&popped.Items[i]))
	}
	return out
}

func eventsOf(events []fdbpq.Event) []string {
	var shown []string
	for _, e := range events {
		shown = append(shown, showEvent(string(e.Type), e.Queue, e.ID.String(), e.Priority, e.Deliveries, e.Reason, e.DeadLetter))
	}
	return shown
}

func pushOf(queue string, items []pushItem) operation {
	return operation{
		name: fmt.Sprintf("push %s %v", queue, items),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var news []fdbpq.NewItem
			for _, item := range items {
				n := fdbpq.NewItem{
					Payload: []byte(item.payload), Headers: []byte(item.headers), Priority: item.priority, HasPriority: item.hasPriority,
					Delay: item.delay, TTL: item.ttl, MsgID: item.msgID,
				}
				if item.notBefore != 0 {
					n.NotBefore = p.wall().Add(item.notBefore)
				}
				news = append(news, n)
			}
			pushed, err := p.store.Queue(queue).Push(tx, news...)
			if err != nil {
				return outcome{}, err
			}
			var out outcome
			for _, one := range pushed {
				v := pushedView{queue: queue, Seq: one.Seq, Priority: one.Priority, Duplicate: one.Duplicate, Evicted: one.Evicted, Err: kindOf(one.Err)}
				if one.Err == nil {
					v.ID = one.ID.String()
				}
				out.Pushed = append(out.Pushed, v)
				out.Events = append(out.Events, eventsOf(one.Events)...)
			}
			return out, nil
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.push(queue, at, items, got) },
	}
}

func (p pushItem) String() string {
	s := fmt.Sprintf("{%s", digest(p.payload))
	for _, field := range []struct {
		name  string
		value any
		set   bool
	}{
		{"headers", digest(p.headers), p.headers != ""}, {"priority", p.priority, p.hasPriority}, {"delay", p.delay, p.delay != 0},
		{"not before", p.notBefore, p.notBefore != 0}, {"ttl", p.ttl, p.ttl != 0}, {"id", p.msgID, p.msgID != ""},
	} {
		if field.set {
			s += fmt.Sprintf(" %s %v", field.name, field.value)
		}
	}
	return s + "}"
}

func (s selection) of() fdbpq.Selection {
	sel := fdbpq.Selection{End: s.end, Limit: s.limit, MaxBytes: s.maxBytes, PopID: s.popID}
	if s.band != everyPriority {
		sel.Band = &s.band
	}
	return sel
}

func (s selection) String() string {
	return fmt.Sprintf("%s %d (%d bytes) of %d..%d id %q", [...]string{"min", "max"}[s.end], s.limit, s.maxBytes, s.band.Low, s.band.High, s.popID)
}

func popOf(queue string, sel selection, lease time.Duration) operation {
	return operation{
		name: fmt.Sprintf("take %s %v lease %v", queue, sel, lease),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.store.Queue(queue)
			var popped fdbpq.Popped
			var err error
			if lease == 0 {
				popped, err = q.Pop(tx, sel.of())
			} else {
				popped, err = q.Lease(tx, sel.of(), lease)
			}
			out := poppedOf(popped)
			for i := range out.Items {
				out.Items[i].queue = queue
			}
			return out, err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.pop(queue, at, sel, lease) },
	}
}

func peekOf(queue string, sel selection) operation {
	return operation{
		name: fmt.Sprintf("peek %s %v", queue, sel),
		look: func(p *process, r kv.Reader) (outcome, error) {
			popped, err := p.store.Queue(queue).Peek(r, sel.of())
			return poppedOf(popped), err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.peek(queue, at, sel) },
	}
}

func settleOf(l heldLease, what settlement, d time.Duration, reason string) operation {
	return operation{
		name: fmt.Sprintf("%s %s/%s fence %d (%v %s)", what, l.queue, l.id, l.fence, d, reason),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			lease, err := fdbpq.ParseLease(l.queue, []byte(l.token))
			if err != nil {
				return outcome{}, err
			}
			q := p.store.Queue(l.queue)
			var settled fdbpq.Settled
			switch what {
			case settleAck:
				settled, err = q.Ack(tx, lease)
			case settleNack:
				settled, err = q.Nack(tx, lease, d)
			case settleReturn:
				settled, err = q.Return(tx, lease)
			case settleExtend:
				settled, err = q.Extend(tx, lease, d)
			case settleTerminate:
				settled, err = q.Terminate(tx, lease, reason)
			}
			out := outcome{Events: eventsOf(settled.Events)}
			if l := settled.Lease; l != nil {
				out.Items = []itemView{{ID: l.ID().String(), Fence: l.Fence, Expires: l.Expires.UnixNano(), queue: l.Queue, token: string(l.Token())}}
			}
			return out, err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.settle(l, at, what, d, reason) },
	}
}

func parseID(id string) fdbpq.ID {
	parsed, err := fdbpq.ParseID(id)
	if err != nil {
		panic(fmt.Sprintf("id %q: %v", id, err))
	}
	return parsed
}

func getOf(id knownID) operation {
	return operation{
		name: fmt.Sprintf("get %s/%s", id.queue, id.id),
		look: func(p *process, r kv.Reader) (outcome, error) {
			stored, err := p.store.Queue(id.queue).Get(r, parseID(id.id))
			if err != nil || stored == nil {
				return outcome{}, err
			}
			return outcome{OK: true, Items: []itemView{storedViewOf(stored)}}, nil
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.get(id.queue, id.id) },
	}
}

func removeOf(id knownID) operation {
	return operation{
		name: fmt.Sprintf("remove %s/%s", id.queue, id.id),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			ok, err := p.store.Queue(id.queue).Remove(tx, parseID(id.id))
			return outcome{OK: ok}, err
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.removeID(id.queue, id.id) },
	}
}

func moveOf(id knownID, priority int64) operation {
	return operation{
		name: fmt.Sprintf("move %s/%s to %d", id.queue, id.id, priority),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			ok, err := p.store.Queue(id.queue).Move(tx, parseID(id.id), priority)
			return outcome{OK: ok}, err
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.move(id.queue, id.id, priority) },
	}
}

func listOf(queue string, l listing) operation {
	return operation{
		name: fmt.Sprintf("list %s %+v", queue, l),
		look: func(p *process, r kv.Reader) (outcome, error) {
			ask := fdbpq.Listing{State: l.state, Limit: l.limit, Bodies: !l.plain}
			if l.after != nil {
				id := parseID(l.after.id)
				ask.After = &id
			}
			page, err := p.store.Queue(queue).List(r, ask)
			out := outcome{More: page.More}
			for i := range page.Items {
				out.Items = append(out.Items, storedViewOf(&page.Items[i]))
			}
			return out, err
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.list(queue, l) },
	}
}

func inspectOf(queue string) operation {
	return operation{
		name: "inspect " + queue,
		look: func(p *process, r kv.Reader) (outcome, error) {
			q := p.store.Queue(queue)
			i, err := q.Inspect(r)
			if err != nil || i == nil {
				return outcome{}, err
			}
			out := outcome{OK: true, Counts: i.Counts, Config: i.Config}
			if i.Paused {
				out.Reason = fdbpq.ReasonPaused
			}
			if i.Next != nil {
				v := viewOf(i.Next)
				v.Payload, v.Headers = "", ""
				out.Items = []itemView{v}
			}
			counts, err := q.Counts(r)
			if err == nil && counts != i.Counts {
				err = fmt.Errorf("Counts says %+v, Inspect %+v", counts, i.Counts)
			}
			return out, err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.inspect(queue, at) },
	}
}

func configureOf(queue string, fields map[string]any, change func(*fdbpq.Config), good bool) operation {
	object, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return operation{
		name: fmt.Sprintf("configure %s %s", queue, object),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			config, err := p.store.Queue(queue).Configure(tx, object)
			return outcome{Config: config}, err
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.configure(queue, change, good) },
	}
}

func pauseOf(queue string, paused bool) operation {
	return operation{
		name: fmt.Sprintf("pause %s %v", queue, paused),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.store.Queue(queue)
			if paused {
				return outcome{}, q.Pause(tx)
			}
			return outcome{}, q.Resume(tx)
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.pause(queue, paused) },
	}
}

func purgeOf(queue string, queueToo bool) operation {
	return operation{
		name: fmt.Sprintf("purge %s, delete %v", queue, queueToo),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.store.Queue(queue)
			purge := q.Purge
			if queueToo {
				purge = q.Delete
			}
			n, err := purge(tx)
			return outcome{N: n}, err
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.purge(queue, queueToo) },
	}
}

// bothOf does several things in one transaction.
func bothOf(parts ...operation) operation {
	name := "together:"
	for _, part := range parts {
		name += " [" + part.name + "]"
	}
	return operation{
		name: name,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var all outcome
			for _, part := range parts {
				out, err := part.run(p, tx)
				if err != nil {
					return outcome{}, err
				}
				all.add(out)
			}
			return all, nil
		},
		expect: func(m *model, at moment, got outcome) outcome {
			var all outcome
			for _, part := range parts {
				rest := got
				rest.Pushed = got.Pushed[min(len(got.Pushed), len(all.Pushed)):]
				out := part.expect(m, at, rest)
				if out.Err != "" {
					return out
				}
				all.add(out)
			}
			return all
		},
	}
}

// add appends what a further part of a transaction answered.
func (o *outcome) add(other outcome) {
	o.Items = append(o.Items, other.Items...)
	o.Events = append(o.Events, other.Events...)
	o.Pushed = append(o.Pushed, other.Pushed...)
	o.Reason += other.Reason
	o.Ready = o.Ready*1000 + other.Ready
	o.More = o.More || other.More
	o.OK = o.OK || other.OK
	o.N += other.N
	if other.Config != (fdbpq.Config{}) {
		o.Config = other.Config
	}
}

// sweepOf sweeps until nothing is due or another process has the work.
func sweepOf() operation {
	return operation{
		name: "sweep",
		whole: func(ctx context.Context, p *process) (outcome, error) {
			var out outcome
			for {
				swept, err := p.store.Sweep(ctx)
				if errors.Is(err, kv.ErrUnavailable) {
					continue
				}
				if err != nil {
					return out, err
				}
				out.Events = append(out.Events, eventsOf(swept.Events)...)
				out.OK = out.OK || swept.Timers > 0
				if swept.Timers == 0 {
					out.N = int64(swept.Next)
					if swept.Busy {
						out.N = -1
					}
					return out, nil
				}
			}
		},
		expect: func(m *model, at moment, _ outcome) outcome {
			out := m.sweep(at)
			if out.N == 0 {
				out.N = int64(m.next(at))
			}
			return out
		},
	}
}

// collectOf clears all that purges left behind.
func collectOf() operation {
	return operation{
		name: "collect",
		whole: func(ctx context.Context, p *process) (outcome, error) {
			for {
				if more, err := p.store.CollectGarbage(ctx); err != nil || !more {
					return outcome{}, err
				}
			}
		},
		expect: func(m *model, at moment, _ outcome) outcome {
			garbage := 0
			for _, q := range m.queues {
				garbage += q.garbage
			}
			if garbage == 0 || m.becomeSweeper(at) {
				return outcome{}
			}
			for _, q := range m.queues {
				if q.garbage = 0; !q.exists {
					q.high = 0 // nothing is left of it
				}
			}
			m.stale = slices.DeleteFunc(m.stale, func(d due) bool { return d.id == "" })
			return outcome{}
		},
	}
}

func namesOf(limit int) operation {
	return operation{
		name: "queues",
		look: func(p *process, r kv.Reader) (outcome, error) {
			var out outcome
			after := ""
			for {
				names, err := p.store.Queues(r, after, limit)
				if err != nil || len(names) == 0 {
					return out, err
				}
				out.Events = append(out.Events, names...)
				after = names[len(names)-1]
			}
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return outcome{Events: m.names()} },
	}
}

// settled brings an outcome into the form in which two are compared: events
// come in no particular order, and what only the model or only the store knows
// does not count.
func (o outcome) settled() outcome {
	o.Events = slices.Sorted(slices.Values(o.Events))
	o.Items = seen(o.Items, func(v *itemView) { v.number, v.queue, v.token = 0, "", "" })
	o.Pushed = seen(o.Pushed, func(v *pushedView) { v.queue = "" })
	o.Imported = seen(o.Imported, func(*importedView) {})
	return o
}

// seen is a copy of what can be seen of views: hide clears the rest.
func seen[T any](views []T, hide func(*T)) []T {
	views = append([]T(nil), views...)
	for i := range views {
		hide(&views[i])
	}
	return views
}

// stagedOf is a take by way of requests. Alone it does what a plain take does.
func stagedOf(queue string, sel selection, lease time.Duration) operation {
	return operation{
		name: fmt.Sprintf("staged take %s %v lease %v", queue, sel, lease),
		whole: func(ctx context.Context, p *process) (outcome, error) {
			// A request that its owner gives up may still be answered.
			steady := maps.Clone(p.chances)
			delete(steady, fault.Unavailable)
			defer p.suffer(steady)()
			popped, err := p.store.PopStaged(ctx, queue, sel.of(), lease)
			return poppedOf(popped), err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.pop(queue, at, sel, lease) },
	}
}
