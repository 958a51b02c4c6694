package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/protocol"
)

// What the gateway holds at a time. More is refused at once, because clients would give up
// before its turn comes. Requests that wait for an item do not take the places of others.
const (
	maxRequests = 64
	maxWaiting  = 256
	maxStreams  = 64
	maxBytes    = 64 << 20 // of bodies

	maxSmallBody = 64 << 10 // of requests that carry no item
)

// room counts what is under way.
type room struct {
	requests, waiting, streams chan struct{}
	bytes                      *atomic.Int64
}

func newRoom() room {
	return room{
		requests: make(chan struct{}, maxRequests), waiting: make(chan struct{}, maxWaiting), streams: make(chan struct{}, maxStreams),
		bytes: new(atomic.Int64),
	}
}

// enter takes a place for a request until leave is called.
func (o *room) enter(in *input) (leave func(), why *refusal) {
	if in.wait() > 0 {
		return take(o.waiting, "requests that wait for an item")
	}
	return take(o.requests, "requests")
}

func take(places chan struct{}, what string) (leave func(), why *refusal) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, busy("%d %s are under way, as many as this gateway takes: try again later", cap(places), what)
	}
}

func busy(format string, args ...any) *refusal {
	why := refusef(protocol.CodeBusy, format, args...)
	why.Reason = protocol.ReasonBusy
	return why
}

// readBody reads the body of a request. It counts as under way until release is called.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, in *input) (body []byte, release func(), why *refusal) {
	most := int64(0)
	switch in.route.body {
	case bodyItem:
		most = protocol.MaxPayload
		if wire := g.wire.Load(); wire != nil {
			most = min(most, wire.nc.MaxPayload())
		}
	case bodyText:
		most = maxSmallBody
	}
	size := r.ContentLength
	if size < 0 {
		size = most // it does not say
	}
	if size > most {
		return nil, nil, tooLarge(most)
	}
	if held := g.room.bytes.Add(size); held > maxBytes {
		g.room.bytes.Add(-size)
		return nil, nil, busy("requests with %d bytes are under way, as many as this gateway takes: try again later", held-size)
	}
	release = func() { g.room.bytes.Add(-size) }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		why = tooLarge(most)
	case err != nil:
		why = refusef(protocol.CodeTimeout, "the body did not arrive: %s", err)
	default:
		return body, release, nil
	}
	release()
	return nil, nil, why
}

func tooLarge(most int64) *refusal {
	if most == 0 {
		return refusef(protocol.CodeBadRequest, "the request has a body: expected none")
	}
	return refusef(protocol.CodeTooLarge, "the body is too large: expected up to %d bytes", most)
}
