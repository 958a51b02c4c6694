package bridge

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// terms are what a pop like another one has in common with it.
type terms struct {
	end   fdbpq.End
	band  fdbpq.Band
	lease time.Duration // 0: what the queue is configured to
}

// popRequest is what a pop or a peek asks for.
type popRequest struct {
	terms
	limit    int  // items at most
	batch    bool // asked for as a batch, which an end marker ends
	bundle   bool // asked for as a bundle: a batch in one message
	maxBytes int  // 0: no bound of the request's own
	wait     time.Duration
	id       string // to repeat the pop by
	repeats  bool   // it is a repetition, and final if it finds nothing
}

// selection is what the core is asked for. A pop that may still wait is not final.
func (p *popRequest) selection(limit *answerLimit, queue string) fdbpq.Selection {
	sel := fdbpq.Selection{
		End: p.end, Band: &p.band, Limit: p.limit, MaxBytes: p.maxBytes,
		PopID: p.id, Repeated: p.repeats && p.wait == 0, AnyLease: p.lease == 0,
	}
	if p.bundle {
		sel.Room, sel.Frame = limit.bundleRoom(), limit.frame(texts{queue: len(queue), id: maxIDText})
	}
	return sel
}

// plain reports whether the pop asks for one item without options, so that one read can
// serve several such pops.
func (p *popRequest) plain() bool {
	return !p.batch && !p.bundle && p.maxBytes == 0 && p.id == ""
}

// pop is a pop, a peek, or a +NXT: a pop that acknowledges first.
type pop struct {
	request.Request
	ask     popRequest
	peeks   bool               // it leaves the items where they are
	acks    *acknowledgement   // of a +NXT
	place   *waiting.Pop[*pop] // where it waits; nil: it does not
	waited  bool               // its wait is over, and it looks for the last time
	refused *failure.Failure   // why its transaction failed: it runs again without this pop

	// What the transaction found.
	found  []fdbpq.Item
	ready  int64         // items left behind the last of them
	leased time.Duration // for how long they were leased
	final  bool          // it found nothing, and no repetition will find anything
}

var popPool pool[pop]

func makePop(subjects.Verb) work { return popPool.get() }

func makePeek(subjects.Verb) work {
	p := popPool.get()
	p.peeks = true
	return p
}

func (p *pop) End() {
	p.leaveOrder()
	popPool.put(p)
}

// acknowledgement is what a +NXT does before it pops.
type acknowledgement struct {
	lease fdbpq.Lease
	order orderPlace // among the settlements of the lease
	done  bool       // in an earlier transaction
}

// nextPop makes a settlement the pop that a +NXT is.
func nextPop(s *settlement) *pop {
	p := popPool.get()
	p.Request, p.ask, p.acks = s.Request, *s.next, &acknowledgement{lease: s.lease}
	p.Work = p
	settlementPool.put(s)
	return p
}

// leaveOrder has the next settlement start of the lease that a +NXT has acknowledged.
func (p *pop) leaveOrder() {
	if p.acks != nil {
		p.acks.order.leave()
	}
}

func (p *pop) Items() []fdbpq.Item { return p.found }

// keepsWaiting reports whether the pop found nothing and may wait for an item.
func (r *pop) keepsWaiting() bool {
	return r.ask.wait > 0 && r.Failure != nil && r.Failure.Code == 404 && !r.final
}

// forget clears the results of an earlier run of the transaction.
func (p *pop) forget() { p.Failure, p.found, p.ready, p.leased, p.final = nil, nil, 0, 0, false }

func (r *pop) read(*wire) *failure.Failure {
	end := fdbpq.Min
	if r.Subject.Verb == subjects.PopMax || r.Subject.Verb == subjects.PeekMax {
		end = fdbpq.Max
	}
	r.ask = popRequest{terms: terms{end: end, band: fdbpq.AllPriorities}, limit: 1}
	if len(r.Msg.Data) == 0 && len(r.Msg.Header) == 0 {
		return nil
	}
	return r.ask.readOptions("the body", r.Msg.Data, r.Msg.Header, r.peeks)
}

// readOptions reads what a body, which the errors call what, and headers ask for.
func (p *popRequest) readOptions(what string, body []byte, header nats.Header, peeks bool) *failure.Failure {
	o := popOptions{peek: peeks}
	f := o.readBody(what, body)
	if f == nil {
		f = o.readHeaders(header)
	}
	if f == nil {
		o.apply(p)
	}
	return f
}

// seen keeps what a peek has found, up to the first item that cannot be sent.
func (p *pop) seen(limit *answerLimit, queue string, taken *fdbpq.Popped) {
	items := taken.Items
	if len(items) == 0 {
		p.Failure = failure.Nothing(queue, taken.Reason)
	}
	for i := range items {
		if f := limit.unanswerable(queue, &items[i]); f != nil {
			if items = items[:i]; i == 0 {
				p.Failure = f
			}
			break
		}
	}
	if p.ask.bundle && len(items) > 0 {
		if items = items[:limit.bundled(queue, items)]; len(items) == 0 {
			p.Failure = errBundleRoom
		}
	}
	p.found = items
	p.ready = max(0, taken.Ready-int64(len(items)))
}

// popOptions are the options in the body and the headers. One that is missing is nil.
type popOptions struct {
	peek          bool
	batch, bundle *int64
	maxBytes      *int64
	wait, lease   *time.Duration
	min, max      *int64
	id            *string
	repeats       *bool
	bandFromBody  bool
}

// agree sets an option, and refuses a second, different value for it.
func agree[T comparable](said **T, value T, body, header string) *failure.Failure {
	if *said != nil && **said != value {
		return failure.Newf(400, "header %s says %v, the body's %s says %v: expected the same or one of them", header, value, body, **said)
	}
	*said = &value
	return nil
}

const popFields = "batch, bundle, expires, lease, max_bytes, min, max, msg_id, repeat"

// readBody reads nothing, an integer, or an object.
func (o *popOptions) readBody(what string, body []byte) *failure.Failure {
	if len(body) > protocol.MaxPopBody {
		return failure.Newf(413, "%s has %d bytes: a pop has up to %d", what, len(body), protocol.MaxPopBody)
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil
	case body[0] == '{':
		if f := readObject(what, body, popFields, o.field); f != nil {
			return f
		}
		if o.min != nil && o.max != nil && *o.min > *o.max {
			return failure.Newf(400, "min is %d and max is %d: expected min not above max", *o.min, *o.max)
		}
		return nil
	case body[0] >= '0' && body[0] <= '9' || body[0] == '-' || body[0] == '+':
		n, f := parseInteger(what, string(body), 1, math.MaxInt64)
		o.batch = &n
		return f
	}
	return failure.Newf(400, "%s is %s: expected nothing, an integer, or a JSON object with some of %s", what, failure.Quote(string(body)), popFields)
}

func (o *popOptions) field(name string, value any) (known bool, f *failure.Failure) {
	duration := func(to **time.Duration, least, most time.Duration) *failure.Failure {
		n, f := readInteger(name, value, math.MinInt64, math.MaxInt64)
		d := time.Duration(n)
		*to = &d
		if f == nil {
			f = checkDuration(name, d, least, most)
		}
		return f
	}
	integer := func(to **int64, least int64) *failure.Failure {
		n, f := readInteger(name, value, least, math.MaxInt64)
		*to = &n
		return f
	}
	switch name {
	case "batch":
		return true, integer(&o.batch, 1)
	case "bundle":
		return true, integer(&o.bundle, 1)
	case "expires":
		return true, duration(&o.wait, 0, math.MaxInt64)
	case "lease":
		return true, duration(&o.lease, 1, fdbpq.MaxLease)
	case "max_bytes":
		return true, integer(&o.maxBytes, 1)
	case "min":
		o.bandFromBody = true
		return true, integer(&o.min, math.MinInt64)
	case "max":
		o.bandFromBody = true
		return true, integer(&o.max, math.MinInt64)
	case "msg_id":
		id, f := readString(name, value)
		if f == nil {
			id, f = readMsgID([]string{id})
		}
		o.id = &id
		return true, f
	case "repeat":
		repeats, f := readBool(name, value)
		o.repeats = &repeats
		return true, f
	}
	return false, nil
}

// readHeaders reads the options in headers.
func (o *popOptions) readHeaders(header nats.Header) *failure.Failure {
	for key, values := range header {
		if key != protocol.HeaderMsgID && !strings.HasPrefix(key, protocol.HeaderPrefix) {
			continue
		}
		if f := o.readHeader(key, values); f != nil {
			return f
		}
	}
	if o.batch != nil && o.bundle != nil {
		return failure.Newf(400, "%s together with %s: expected one of them", protocol.HeaderBatch, protocol.HeaderBundle)
	}
	if o.peek && o.lease != nil {
		return failure.Newf(400, "a peek takes no lease: pop to get one")
	}
	if o.peek && o.id != nil {
		return failure.Newf(400, "a peek has no %s: it can be repeated as it is", protocol.HeaderMsgID)
	}
	if o.repeats != nil && *o.repeats && o.id == nil {
		return failure.Newf(400, "a repetition has no %s: expected that of the pop that it repeats", protocol.HeaderMsgID)
	}
	return nil
}

func (o *popOptions) readHeader(key string, values []string) *failure.Failure {
	switch key {
	case protocol.HeaderBatch, protocol.HeaderBundle, protocol.HeaderWait, protocol.HeaderLease, protocol.HeaderBand, protocol.HeaderRepeat, protocol.HeaderMsgID:
	default:
		return failure.Newf(400, "header %s is none of a pop: expected %s, %s, %s, %s, %s, %s or %s",
			failure.Quote(key), protocol.HeaderBatch, protocol.HeaderBundle, protocol.HeaderWait, protocol.HeaderLease, protocol.HeaderBand, protocol.HeaderRepeat, protocol.HeaderMsgID)
	}
	value, f := single(key, values)
	if f != nil {
		return f
	}
	switch key {
	case protocol.HeaderBatch:
		n, f := parseInteger(key, value, 1, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.batch, n, "batch", key)
	case protocol.HeaderBundle:
		n, f := parseInteger(key, value, 1, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.bundle, n, "bundle", key)
	case protocol.HeaderWait:
		d, f := readDuration(key, value, 0, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.wait, d, "expires", key)
	case protocol.HeaderLease:
		d, f := readDuration(key, value, 1, fdbpq.MaxLease)
		if f != nil {
			return f
		}
		return agree(&o.lease, d, "lease", key)
	case protocol.HeaderMsgID:
		id, f := readMsgID(values)
		if f != nil {
			return f
		}
		return agree(&o.id, id, "msg_id", key)
	case protocol.HeaderRepeat:
		if value != "true" && value != "false" {
			return failure.Newf(400, "%s is %s: expected true or false", key, failure.Quote(value))
		}
		return agree(&o.repeats, value == "true", "repeat", key)
	}
	return o.readBand(value)
}

// readBand reads <low>..<high>, one of which may be left out.
func (o *popOptions) readBand(s string) *failure.Failure {
	low, high, ok := strings.Cut(s, "..")
	if !ok || s == ".." {
		return failure.Newf(400, "%s is %s: expected <low>..<high>, such as 1..5, 1.. or ..5", protocol.HeaderBand, failure.Quote(s))
	}
	band := fdbpq.AllPriorities
	for _, end := range []struct {
		text string
		to   *int64
	}{{low, &band.Low}, {high, &band.High}} {
		if end.text == "" {
			continue
		}
		var err error
		if *end.to, err = subjects.ParsePriority(end.text); err != nil {
			return failure.Newf(400, "%s is %s: %s", protocol.HeaderBand, failure.Quote(s), err)
		}
	}
	if band.Low > band.High {
		return failure.Newf(400, "%s is %s: expected the lower end first", protocol.HeaderBand, failure.Quote(s))
	}
	if o.bandFromBody && o.band(fdbpq.AllPriorities) != band {
		return failure.Newf(400, "header %s is %s, min and max in the body say otherwise: expected the same or one of them", protocol.HeaderBand, failure.Quote(s))
	}
	o.min, o.max = &band.Low, &band.High
	return nil
}

// band returns the priorities that were asked for, of those in base.
func (o *popOptions) band(base fdbpq.Band) fdbpq.Band {
	if o.min != nil || o.max != nil {
		base = fdbpq.AllPriorities
	}
	if o.min != nil {
		base.Low = *o.min
	}
	if o.max != nil {
		base.High = *o.max
	}
	return base
}

// apply sets the options in p.
func (o *popOptions) apply(p *popRequest) {
	if o.batch != nil {
		p.limit, p.batch = int(min(*o.batch, fdbpq.MaxBatch)), true
	}
	if o.bundle != nil {
		p.limit, p.bundle = int(min(*o.bundle, fdbpq.MaxBatch)), true
	}
	if o.maxBytes != nil {
		p.maxBytes = int(min(*o.maxBytes, fdbpq.MaxBatchBytes))
	}
	if o.wait != nil {
		p.wait = min(*o.wait, protocol.MaxWait)
	}
	if o.lease != nil {
		p.lease = *o.lease
	}
	if o.id != nil {
		p.id = *o.id
	}
	if o.repeats != nil {
		p.repeats = *o.repeats
	}
	p.band = o.band(p.band)
}
