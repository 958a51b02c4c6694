package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// pull fetches messages from a consumer into an inbox of its own. When the pull ends, its requests end with the
// inbox.
type pull struct {
	nc       *nats.Conn
	sub      *nats.Subscription
	messages chan *nats.Msg
	subject  string // of requests
	inbox    string
	batch    int // messages of a request
	requests int // that may be under way
	pending  int // messages requested and not delivered yet
	came     bool
	large    bool // a message has more bytes than a request may ask for: the next one asks for it alone
	number   uint64
	missing  bool // the last heartbeat counted deliveries that did not come here

	clock clock
	asked time.Time // the last time
	idle  idle
	rest  <-chan time.Time // nil: the next request may go at once
}

// Bounds of one request.
const (
	pullBytes   = 4 << 20
	pullExpires = 30 * time.Second
	pullBeat    = 2 * time.Second
	pullSilence = 3 * pullBeat
)

var (
	errDisconnected = errors.New("the connection to the remote was lost")
	errSilence      = fmt.Errorf("the NATS server has not said anything for %s", pullSilence)
	errGap          = errors.New("a message was lost on its way")
	errElsewhere    = errors.New("the NATS server has delivered messages elsewhere")
)

func newPull(s *stream, clock clock, consumer string, batch, requests int) (*pull, error) {
	p := &pull{
		nc: s.nc, subject: s.prefix + "CONSUMER.MSG.NEXT." + s.name + "." + consumer, inbox: s.nc.NewInbox(),
		batch: batch, requests: requests, clock: clock, messages: make(chan *nats.Msg, requests*(batch+16)),
	}
	var err error
	p.sub, err = s.nc.ChanSubscribe(p.inbox, p.messages)
	return p, err
}

func (p *pull) close() { _ = p.sub.Unsubscribe() }

// ask keeps as many messages requested as allowed.
func (p *pull) ask() error {
	for p.pending <= (p.requests-1)*p.batch {
		request := map[string]any{"batch": p.batch, "expires": pullExpires, "idle_heartbeat": pullBeat, "max_bytes": pullBytes}
		n := p.batch
		if p.large {
			if p.pending > 0 {
				return nil
			}
			n = 1
			request["batch"] = 1
			delete(request, "max_bytes")
		}
		body, err := json.Marshal(request)
		if err == nil {
			err = p.nc.PublishRequest(p.subject, p.inbox, body)
		}
		if err != nil {
			return err
		}
		p.pending += n
		p.came, p.asked = false, p.clock.now()
		if p.large {
			return nil
		}
	}
	return nil
}

// read reads a message. is is false if it is not a delivery but about a request.
func (p *pull) read(m *nats.Msg) (d delivery, is bool, err error) {
	status := m.Header.Get("Status")
	if status == "" || m.Reply != "" { // a delivery has a subject for its acknowledgement, whatever headers its publisher chose
		if d, err = readDelivery(m); err != nil {
			return d, false, err
		}
		if p.number++; d.number != p.number {
			return d, false, errGap
		}
		p.pending--
		p.came, p.large, p.missing = true, false, false
		p.idle.reset()
		return d, true, nil
	}
	text := m.Header.Get("Description")
	if status != "100" && !p.came {
		if pause := p.idle.pause(p.clock.now().Sub(p.asked)); pause > 0 {
			p.rest = p.clock.after(pause)
		}
	}
	left, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")) // none: all have come
	switch status {
	case "100":
		// A bridge that ran the source before may have requested messages and be suspended: these are its own until
		// they are acknowledged, and they are no gap here. One heartbeat may have come before a delivery.
		count, _ := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64)
		before := p.missing
		if p.missing = count > p.number; p.missing && before {
			return d, false, errElsewhere
		}
		return d, false, nil
	case "404", "408":
		p.pending = max(0, p.pending-left)
		return d, false, nil
	case "409":
		if text == "Batch Completed" { // all have come, and there were bytes left
			p.pending = max(0, p.pending-left)
			return d, false, nil
		}
		if text == "Message Size Exceeds MaxBytes" {
			p.pending = max(0, p.pending-left)
			p.large = !p.came
			return d, false, nil
		}
	}
	return d, false, fmt.Errorf("the NATS server ends a request for messages: %s %s", status, text)
}

// next waits for a delivery until ctx ends, or another time.
func (p *pull) next(ctx context.Context, until <-chan time.Time, lost <-chan nats.Status) (d delivery, is bool, err error) {
	silent := time.NewTimer(pullSilence)
	defer silent.Stop()
	for {
		if p.rest == nil {
			if err := p.ask(); err != nil {
				return d, false, err
			}
		}
		select {
		case <-p.rest:
			p.rest = nil
		case m := <-p.messages:
			if d, is, err = p.read(m); is || err != nil {
				return d, is, err
			}
			silent.Reset(pullSilence)
		case <-silent.C:
			return d, false, errSilence
		case <-until:
			return d, false, nil
		case <-lost:
			return d, false, errDisconnected
		case <-ctx.Done():
			return d, false, ctx.Err()
		}
	}
}

// more returns a delivery that has arrived already.
func (p *pull) more() (d delivery, is bool, err error) {
	for {
		select {
		case m := <-p.messages:
			if d, is, err = p.read(m); is || err != nil {
				return d, is, err
			}
		default:
			return d, false, nil
		}
	}
}

// clock is the time by which sources pause.
type clock struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
}

// idle is about a remote that is asked to wait until it has something. One that answers at once that it has nothing
// would be asked again at once, and keep both sides busy; so it is asked after a pause, which grows.
type idle struct{ next time.Duration }

const (
	// idleWait is how long a remote has to wait before it answers that it has nothing. It is shorter than any wait
	// that a source asks for.
	idleWait = time.Second

	lastIdle = 5 * time.Second
)

// pause is the pause behind an answer without anything that took so long. Once, an answer may come too early.
func (i *idle) pause(took time.Duration) time.Duration {
	if took >= idleWait {
		i.reset()
		return 0
	}
	pause := i.next
	i.next = min(max(2*pause, firstPause), lastIdle)
	return pause
}

// reset notes that the remote has given something.
func (i *idle) reset() { i.next = 0 }

// rest waits for a pause, unless there is none.
func (a *attempt) rest(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.lost:
		return errDisconnected
	case <-a.runners.clock.after(pause):
		return nil
	}
}
