package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// Bounds of the requests that the gateway holds at a time, half of them for one address. It refuses more at once,
// because clients would give up before their turn comes. Requests that wait for an item or a result do not take the places of
// others.
const (
	maxRequests = 128
	maxWaiting  = 512
	maxStreams  = 256
	maxBytes    = 64 << 20 // of bodies
)

// admission counts the requests under way.
type admission struct{ requests, waiting, streams, bytes *places }

func newAdmission() admission {
	return admission{
		requests: newPlaces("requests", maxRequests), waiting: newPlaces("requests that wait", maxWaiting),
		streams: newPlaces("streams", maxStreams), bytes: newPlaces("bytes of requests", maxBytes),
	}
}

// enter takes a place for a request until leave is called.
func (o *admission) enter(in *input) (leave func(), why *refusal) {
	if in.wait() > 0 {
		return o.waiting.enter(in.from)
	}
	return o.requests.enter(in.from)
}

// places are shared by all callers. One address gets half of them at most, so that it cannot keep the others out.
type places struct {
	what string
	all  int64

	mu  sync.Mutex
	sum int64
	of  map[source]int64
}

func newPlaces(what string, all int64) *places {
	return &places{what: what, all: all, of: make(map[source]int64)}
}

// enter takes a place until leave is called.
func (p *places) enter(who source) (leave func(), why *refusal) {
	if why := p.take(who, 1); why != nil {
		return nil, why
	}
	return func() { p.leave(who, 1) }, nil
}

func (p *places) take(who source, n int64) *refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.sum+n > p.all:
		return busy("%d %s are under way, as many as this pqd takes: try again later", p.sum, p.what)
	case p.of[who]+n > p.all/2:
		return busy("%d %s of %s are under way, as many as one address or tenant may have: try again later", p.of[who], p.what, who.name())
	}
	p.sum += n
	p.of[who] += n
	return nil
}

func (p *places) leave(who source, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum -= n
	if p.of[who] -= n; p.of[who] == 0 {
		delete(p.of, who)
	}
}

func (p *places) taken() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum
}

func busy(format string, args ...any) *refusal {
	why := refusef(protocol.CodeBusy, format, args...)
	why.Reason = protocol.ReasonBusy
	why.retryAfter = "1"
	return why
}

// ReadLimit is how long a request may take to arrive. The server sets it.
const ReadLimit = 10 * time.Second

// firstPart is how much room a body gets before its first byte arrives.
const firstPart = 4 << 10

// mostOf is the largest body of each kind, as the bridge has it. The bridge refuses all other mistakes.
var mostOf = map[bodyKind]int64{bodyItem: protocol.MaxPayload, bodyText: protocol.MaxRequestBody,
	bodyDefinition: protocol.MaxDefinition, bodySchedule: protocol.MaxScheduleBody}

// readBody reads the body of a request, which counts as under way until release is called. The request has no place
// yet, and the body gets room as it arrives: a client that sends slowly, or announces much and sends nothing,
// delays no other.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, in *input) (body []byte, release func(), why *refusal) {
	most, limit := mostOf[in.route.body], ""
	if wire := g.wire.Load(); wire != nil && wire.nc.MaxPayload() <= most {
		most, limit = wire.nc.MaxPayload(), ", the NATS server's max_payload"
	}
	allowed := most
	switch {
	case r.ContentLength > most:
		return nil, nil, tooLarge(most, limit)
	case r.ContentLength >= 0:
		most = r.ContentLength
	}
	held := int64(0)
	release = func() { g.room.bytes.leave(in.from, held) }
	from := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(body) == cap(body) {
			more := min(max(firstPart, held), most+1-held) // a byte more than allowed, to see the end
			if why := g.room.bytes.take(in.from, more); why != nil {
				release()
				return nil, nil, why
			}
			held += more
			body = append(make([]byte, 0, held), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var large *http.MaxBytesError
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return body, release, nil
		case errors.As(err, &large):
			why = tooLarge(allowed, limit)
		default:
			why = refusef(protocol.CodeTimeout, "the body did not arrive, so nothing was done: expected it within %s", ReadLimit)
		}
		release()
		return nil, nil, why
	}
}

func tooLarge(most int64, limit string) *refusal {
	if most == 0 {
		return refusef(protocol.CodeBadRequest, "the request has a body: expected none")
	}
	return refusef(protocol.CodeTooLarge, "the body is too large: expected up to %d bytes%s", most, limit)
}
