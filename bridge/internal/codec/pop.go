package codec

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Terms are the options that a repeated or following pop takes over from the first.
type Terms struct {
	End   fdbpq.End
	Band  fdbpq.Band
	Lease time.Duration // 0: the queue's default
}

// PopRequest is a request for a pop or a peek.
type PopRequest struct {
	Terms
	Limit    int  // items at most
	Batch    bool // asked for as a batch, which an end marker ends
	Bundle   bool // asked for as a bundle: a batch in one message
	MaxBytes int  // 0: no bound of the request's own
	Wait     time.Duration
	Confirm  time.Duration // lease items that would be popped for good, until they are acknowledged; 0: do not
	Holder   string        // the name of the holder of the leases
	ID       string        // by which the pop can be repeated
	Repeats  bool          // it is a repetition, and final if it finds nothing
}

// Selection is the request to the core. A pop that may still wait is not final.
func (p *PopRequest) Selection(limit *Limit, queue string) fdbpq.Selection {
	sel := fdbpq.Selection{
		End: p.End, Band: &p.Band, Limit: p.Limit, MaxBytes: p.MaxBytes,
		PopID: p.ID, Repeated: p.Repeats && p.Wait == 0, AnyLease: p.Lease == 0,
	}
	if p.Holder != "" {
		sel.Holders = []string{p.Holder}
	}
	if p.Bundle {
		sel.Room, sel.Frame = limit.BundleRoom(), limit.ItemFrame(queue)
	}
	return sel
}

// Plain reports whether the pop asks for one item without options, so that one read can
// serve several such pops.
func (p *PopRequest) Plain() bool {
	return !p.Batch && !p.Bundle && p.MaxBytes == 0 && p.ID == ""
}

// Keep makes the request independent of its message, whose headers share one piece of memory. A pop that waits keeps
// its own words alone.
func (p *PopRequest) Keep() { p.Holder, p.ID = strings.Clone(p.Holder), strings.Clone(p.ID) }

// ReadPop reads a pop.
func ReadPop(end fdbpq.End, m *nats.Msg) (PopRequest, *failure.Failure) {
	return readPop(Terms{End: end, Band: fdbpq.AllPriorities}, "the body", m.Data, m.Header, popOptions{})
}

// ReadPeek reads a peek.
func ReadPeek(end fdbpq.End, m *nats.Msg) (PopRequest, *failure.Failure) {
	return readPop(Terms{End: end, Band: fdbpq.AllPriorities}, "the body", m.Data, m.Header, popOptions{peek: true})
}

// readPop reads the options in a body, which errors call what, and in headers.
func readPop(t Terms, what string, body []byte, header nats.Header, o popOptions) (p PopRequest, f *failure.Failure) {
	p = PopRequest{Terms: t, Limit: 1}
	if len(body) == 0 && len(header) == 0 {
		return p, nil
	}
	if f = o.readBody(what, body); f == nil {
		f = o.readHeaders(header)
	}
	o.apply(&p)
	return p, f
}

// popOptions are the options in the body and the headers. A missing option is nil.
type popOptions struct {
	peek          bool
	batch, bundle *int64
	maxBytes      *int64
	wait, lease   *time.Duration
	confirm       *time.Duration
	min, max      *int64
	id            *string
	holder        *string
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

const popFields = "batch, bundle, confirm, expires, holder, lease, max_bytes, min, max, msg_id, repeat"

// readBody reads nothing, an integer, or an object.
func (o *popOptions) readBody(what string, body []byte) *failure.Failure {
	if f := checkSize(what, len(body), protocol.MaxPopBody); f != nil {
		return f // many of them may wait
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil
	case body[0] == '{':
		if f := ReadObject(what, body, popFields, o.field); f != nil {
			return f
		}
		if o.min != nil && o.max != nil && *o.min > *o.max {
			return failure.Newf(400, "min is %d and max is %d: expected min not above max", *o.min, *o.max)
		}
		return nil
	case body[0] >= '0' && body[0] <= '9' || body[0] == '-' || body[0] == '+':
		n, f := ParseInteger(what, string(body), 1, math.MaxInt64)
		o.batch = &n
		return f
	}
	return failure.Newf(400, "%s is %s: expected nothing, an integer, or a JSON object with some of %s", what, failure.Quote(string(body)), popFields)
}

func (o *popOptions) field(name string, value any) (known bool, f *failure.Failure) {
	duration := func(to **time.Duration, least, most time.Duration) *failure.Failure {
		n, f := ReadInteger(name, value, math.MinInt64, math.MaxInt64)
		d := time.Duration(n)
		*to = &d
		if f == nil {
			f = checkDuration(name, d, least, most)
		}
		return f
	}
	integer := func(to **int64, least int64) *failure.Failure {
		n, f := ReadInteger(name, value, least, math.MaxInt64)
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
	case "confirm":
		return true, duration(&o.confirm, 1, fdbpq.MaxLease)
	case "max_bytes":
		return true, integer(&o.maxBytes, 1)
	case "min":
		o.bandFromBody = true
		return true, integer(&o.min, math.MinInt64)
	case "max":
		o.bandFromBody = true
		return true, integer(&o.max, math.MinInt64)
	case "msg_id":
		id, f := ReadString(name, value)
		if f == nil {
			id, f = readMsgID([]string{id})
		}
		o.id = &id
		return true, f
	case "holder":
		holder, f := ReadHolder(name, value)
		o.holder = &holder
		return true, f
	case "repeat":
		repeats, f := ReadBool(name, value)
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
	if o.peek && o.confirm != nil {
		return failure.Newf(400, "a peek has nothing to confirm: pop to take items")
	}
	if o.lease != nil && o.confirm != nil {
		return failure.Newf(400, "%s together with %s: expected one of them", protocol.HeaderLease, protocol.HeaderConfirm)
	}
	if o.peek && o.holder != nil {
		return failure.Newf(400, "a peek takes no holder: pop with a lease to be one")
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
	case protocol.HeaderBatch, protocol.HeaderBundle, protocol.HeaderWait, protocol.HeaderLease,
		protocol.HeaderConfirm, protocol.HeaderBand, protocol.HeaderHolder, protocol.HeaderRepeat, protocol.HeaderMsgID:
	default:
		return failure.Newf(400, "header %s is none of a pop: expected %s, %s, %s, %s, %s, %s, %s, %s or %s",
			failure.Quote(key), protocol.HeaderBatch, protocol.HeaderBundle, protocol.HeaderWait, protocol.HeaderLease,
			protocol.HeaderConfirm, protocol.HeaderBand, protocol.HeaderHolder, protocol.HeaderRepeat, protocol.HeaderMsgID)
	}
	value, f := single(key, values)
	if f != nil {
		return f
	}
	switch key {
	case protocol.HeaderBatch:
		n, f := ParseInteger(key, value, 1, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.batch, n, "batch", key)
	case protocol.HeaderBundle:
		n, f := ParseInteger(key, value, 1, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.bundle, n, "bundle", key)
	case protocol.HeaderWait:
		d, f := ReadDuration(key, value, 0, math.MaxInt64)
		if f != nil {
			return f
		}
		return agree(&o.wait, d, "expires", key)
	case protocol.HeaderLease:
		d, f := ReadDuration(key, value, 1, fdbpq.MaxLease)
		if f != nil {
			return f
		}
		return agree(&o.lease, d, "lease", key)
	case protocol.HeaderConfirm:
		d, f := ReadDuration(key, value, 1, fdbpq.MaxLease)
		if f != nil {
			return f
		}
		return agree(&o.confirm, d, "confirm", key)
	case protocol.HeaderMsgID:
		id, f := readMsgID(values)
		if f != nil {
			return f
		}
		return agree(&o.id, id, "msg_id", key)
	case protocol.HeaderHolder:
		holder, f := readHolder(key, value)
		if f != nil {
			return f
		}
		return agree(&o.holder, holder, "holder", key)
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

// band returns the requested priorities within base.
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
func (o *popOptions) apply(p *PopRequest) {
	if o.batch != nil {
		p.Limit, p.Batch = int(min(*o.batch, fdbpq.MaxBatch)), true
	}
	if o.bundle != nil {
		p.Limit, p.Bundle = int(min(*o.bundle, fdbpq.MaxBatch)), true
	}
	if o.maxBytes != nil {
		p.MaxBytes = int(min(*o.maxBytes, fdbpq.MaxBatchBytes))
	}
	if o.wait != nil {
		p.Wait = min(*o.wait, protocol.MaxWait)
	}
	if o.lease != nil {
		p.Lease = *o.lease
	}
	if o.confirm != nil {
		p.Confirm = *o.confirm
	}
	if o.id != nil {
		p.ID = *o.id
	}
	if o.holder != nil {
		p.Holder = *o.holder
	}
	if o.repeats != nil {
		p.Repeats = *o.repeats
	}
	p.Band = o.band(p.Band)
}
