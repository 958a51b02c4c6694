package client

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// AckMany acknowledges items of the queue, up to [MaxMany] in one message, and returns what
// [Item.Ack] would return for each, or nil if all of them are gone for good.
func (q *Queue) AckMany(ctx context.Context, items ...*Item) []error {
	j := jointly{client: q.client, queue: q.name}
	errs := make([]error, len(items))
	var all []*jointOne
	of := make([]int, 0, len(items)) // the item of each
	for i, item := range items {
		s, err := newJointOne(item, "ack", protocol.SettleAck)
		if err == nil && !item.beginSettle() {
			err = ErrSettled
		}
		if errs[i] = err; err == nil {
			all, of = append(all, s), append(of, i)
		}
	}
	failed := len(all) < len(items)
	for start := 0; start < len(all); start += MaxMany {
		j.send(ctx, all[start:min(len(all), start+MaxMany)])
	}
	for k, s := range all {
		err := items[of[k]].endSettle(s.finish(ctx))
		errs[of[k]] = err
		failed = failed || err != nil
	}
	if !failed {
		return nil
	}
	return errs
}

// jointly settles leases of a queue together: what comes while a message with settlements
// is under way goes into the next one. A settlement alone has a message of its own. Each
// caller waits for the answer to its own settlement.
type jointly struct {
	client *Client
	queue  string

	mu      sync.Mutex
	busy    bool
	waiting []*jointOne
}

// jointOne is a settlement that waits for its answer.
type jointOne struct {
	item     *Item
	op, body string
	line     string
	done     chan struct{} // closed when err is there
	err      error
	alone    bool // it has to go in a message of its own
	sent     int  // attempts that may have taken effect
}

// settle settles a lease and returns when that is answered, or ctx has ended.
func (j *jointly) settle(ctx context.Context, item *Item, op, body string) error {
	s, err := newJointOne(item, op, body)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.waiting = append(j.waiting, s)
	begin := !j.busy
	j.busy = true
	j.mu.Unlock()
	if begin {
		go j.run()
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return inDoubt(ended(op, item.Queue, 1, nil, ctx.Err()), true)
	}
	return s.finish(ctx)
}

// finish returns the result of a settlement, which it sends alone if it has to be.
func (s *jointOne) finish(ctx context.Context) error {
	if s.alone {
		_, s.err = s.item.sendAlone(ctx, s.op, s.body, s.sent)
	}
	return s.err
}

func newJointOne(item *Item, op, body string) (*jointOne, error) {
	if item.ack == "" {
		return nil, ErrNotLeased
	}
	subject, err := item.queue.client.acks.written(item.ack)
	return &jointOne{
		item: item, op: op, body: body, line: subject + " " + oneLine.Replace(body), done: make(chan struct{}),
	}, err
}

// run sends settlements until none waits.
func (j *jointly) run() {
	for {
		j.mu.Lock()
		n := min(len(j.waiting), MaxMany)
		now := j.waiting[:n:n]
		j.waiting = j.waiting[n:]
		j.busy = n > 0
		j.mu.Unlock()
		if n == 0 {
			return
		}
		if len(now) == 1 {
			_, now[0].err = now[0].item.sendAlone(context.Background(), now[0].op, now[0].body, 0) // what comes meanwhile goes together
		} else {
			j.send(context.Background(), now)
		}
		for _, s := range now {
			close(s.done)
		}
	}
}

// send settles leases by one message, or has each of them go in a message of its own.
func (j *jointly) send(ctx context.Context, now []*jointOne) {
	for _, s := range now {
		s.alone = true
	}
	if len(now) == 1 {
		return
	}
	to, err := j.client.grammar.Build(subjects.Subject{Queue: j.queue, Verb: subjects.Ack, Conn: "bundle", Token: "settle"})
	if err != nil {
		return
	}
	r := &call{op: "ack", queue: j.queue, subject: to, header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(now))}}}
	for _, s := range now {
		r.body = append(append(r.body, s.line...), '\n')
	}
	m, err := j.client.do(ctx, r)
	var e *Error
	if errors.As(err, &e) && e.Code == protocol.CodeTooLarge {
		return
	}
	var results []string
	if err == nil {
		results = strings.Split(strings.TrimSuffix(string(m.Data), "\n"), "\n")
		if len(results) != len(now) {
			err = unreadable("ack", j.queue, m.Data, nil)
		}
	}
	for i, s := range now {
		s.alone = false
		if s.err = err; err == nil {
			s.read(results[i], r.sent-r.answered)
		}
	}
}

// read reads the result of a settlement, after some attempts that may have taken effect.
// What may succeed later is sent again, alone.
func (s *jointOne) read(result string, before int) {
	if result == protocol.ResultOK || strings.HasPrefix(result, protocol.ResultOK+" ") {
		return
	}
	words := strings.SplitN(result, " ", 4)
	code := 0
	if len(words) >= 3 && words[0] == protocol.ResultError {
		code, _ = strconv.Atoi(words[1]) // 0 is no code either
	}
	if code == 0 {
		s.err = unreadable(s.op, s.item.Queue, []byte(result), nil)
		return
	}
	e := &Error{Op: s.op, Queue: s.item.Queue, Code: code, Reason: Reason(strings.TrimPrefix(words[2], "-")), Description: strings.Join(words[3:], "")}
	switch {
	case code == protocol.CodeLeaseLost && before > 0 && held(s.op, e.Reason):
	case e.again(true):
		s.alone, s.sent = true, before
		if code == protocol.CodeUnknownResult {
			s.sent++
		}
	default:
		s.err = e
	}
}
