package bridge

import (
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// travelsWithItem reports whether a header without the prefix PQ- stays with an item of a
// queue.
func travelsWithItem(key string, values []string, queue string) (travels bool, f *failure.Failure) {
	if !strings.HasPrefix(key, "Nats-") {
		return key != protocol.HeaderStatus, nil
	}
	instead := func(ours string) (bool, *failure.Failure) {
		return false, failure.Newf(400, "header %s is not supported: %s", failure.Quote(key), ours)
	}
	switch {
	case key == nats.ExpectedStreamHdr:
		if len(values) != 1 || values[0] != queue {
			return false, failure.Newf(400, "%s is %s: the queue is %s", key, failure.Quote(strings.Join(values, ", ")), queue)
		}
		return false, nil
	case strings.HasPrefix(key, "Nats-Expected-"):
		return instead("a queue has no stream sequence; to push once use " + protocol.HeaderMsgID)
	case key == "Nats-TTL":
		return instead("use " + protocol.HeaderTTL + ", such as 1h")
	case strings.HasPrefix(key, "Nats-Schedule"):
		return instead("use " + protocol.HeaderDelay + ", such as 30s, or " + protocol.HeaderNotBefore + ", a time such as 2030-01-02T15:04:05Z")
	case key == protocol.HeaderTimeStamp, strings.HasPrefix(key, micro.ErrorHeader):
		return false, nil // an answer's
	case strings.HasPrefix(key, "Nats-Trace-"):
		return false, nil // about the message, and the server would act on it again
	case key == "Nats-Request-Info":
		return false, nil // who pushed, from where: a server's word to the bridge
	}
	return true, nil
}

// single returns the value of a PQ- header.
func single(key string, values []string) (string, *failure.Failure) {
	if len(values) != 1 {
		return "", failure.Newf(400, "header %s stands %d times: expected once", key, len(values))
	}
	if values[0] == "" {
		return "", failure.Newf(400, "header %s is empty: expected a value or no such header", key)
	}
	return values[0], nil
}

func readMsgID(values []string) (string, *failure.Failure) {
	id, f := single(protocol.HeaderMsgID, values)
	if f == nil && len(id) > fdbpq.MaxMsgID {
		f = failure.Newf(400, "%s has %d bytes: allowed are %d", protocol.HeaderMsgID, len(id), fdbpq.MaxMsgID)
	}
	return id, f
}

// readDuration reads a duration such as 1h30m.
func readDuration(what, s string, least, most time.Duration) (time.Duration, *failure.Failure) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, failure.Newf(400, "%s is %s: expected a duration such as 30s or 1h30m", what, failure.Quote(s))
	}
	return d, checkDuration(what, d, least, most)
}

func checkDuration(what string, d, least, most time.Duration) *failure.Failure {
	if d >= least && d <= most {
		return nil
	}
	if least > 0 {
		return failure.Newf(400, "%s is %s: expected more than 0s, up to %s", what, d, most)
	}
	return failure.Newf(400, "%s is %s: expected 0s to %s", what, d, most)
}

// appendHeader appends a header to the block that is kept with an item: lines
// "key: value" that end in CR LF, as they stand in a message.
func appendHeader(b []byte, key string, values []string) ([]byte, *failure.Failure) {
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' || strings.IndexByte(`"()/,:;<=>?@[\]{}`, c) >= 0 {
			return nil, failure.Newf(400, "header name %s: expected printable ASCII without spaces and without any of %s", failure.Quote(key), `"()/,:;<=>?@[\]{}`)
		}
	}
	for _, value := range values {
		b = slices.Grow(b, len(key)+len(value)+4)
		b = append(append(b, key...), ": "...)
		b = append(append(b, value...), "\r\n"...)
	}
	return b, nil
}

// Headers are the headers of an item that a bridge has pushed.
func Headers(item *fdbpq.Item) nats.Header {
	headers := make(nats.Header)
	addHeaders(headers, item.Headers)
	return headers
}

// addHeaders adds the headers of an item to those of its answer.
func addHeaders(to nats.Header, block []byte) {
	rest := string(block)
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		to[key] = append(to[key], value)
		rest = after
	}
}
