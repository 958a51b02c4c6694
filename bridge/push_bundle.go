package bridge

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// A push may be a bundle: many items in one message, all of which are added, or none. The
// items of a bundle that is refused must leave nothing behind, so the bundle ends its
// transaction, and the other pushes run again without it.

// maxResult is the size of what an answer says about one item of a bundle.
var maxResult = len(`{"seq":,"duplicate":true,"id":"","priority":,"evicted":true},`) + maxIDText + 2*maxNumberText

// readBundleSize reads how many requests a message says that it has.
func readBundleSize(values []string) (int, *failure.Failure) {
	value, f := single(protocol.HeaderBundle, values)
	if f != nil {
		return 0, f
	}
	n, f := parseInteger(protocol.HeaderBundle, value, 1, maxNumber)
	if f == nil && n > protocol.MaxBundle {
		f = failure.Newf(413, "%s is %d: allowed are %d", protocol.HeaderBundle, n, protocol.MaxBundle)
	}
	return int(n), f
}

// readBundle reads the items of a bundle, and the few headers that a bundle has itself.
func (p *push) readBundle(wr *wire, size []string) *failure.Failure {
	n, f := readBundleSize(size)
	if f != nil {
		return f
	}
	id, f := p.readBundleHeaders()
	if f != nil {
		return f
	}
	if most := int(wr.answerLimit.maxPayload.Load()) / maxResult; n > most {
		return failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most)
	}
	p.Bundled, p.bundle = n, make([]fdbpq.NewItem, n)
	rest, lines := p.Msg.Data, make(nats.Header)
	for i := range p.bundle {
		if rest, f = p.readFrame(wr, &p.bundle[i], lines, rest); f != nil {
			return f.OfItem(i)
		}
		if item := &p.bundle[i]; item.MsgID == "" && id != "" {
			item.MsgID = id + idInBundle + strconv.Itoa(i)
		}
	}
	if len(rest) > 0 {
		return failure.Newf(400, "%d bytes follow item %d: expected %d items, as %s says", len(rest), n-1, n, protocol.HeaderBundle)
	}
	if err := fdbpq.CheckPushSize(p.Subject.Queue, p.bundle); err != nil {
		return failure.Explain(err)
	}
	return nil
}

// idInBundle stands between the id of a bundle and the number of an item. No header has
// it, so an item's own id cannot look like that.
const idInBundle = "\n"

// maxBundleID leaves room for the number of an item in its id.
var maxBundleID = fdbpq.MaxMsgID - len(idInBundle) - len(strconv.Itoa(protocol.MaxBundle-1))

// readBundleHeaders returns the bundle's id. Headers of items are in their frames.
func (p *push) readBundleHeaders() (id string, f *failure.Failure) {
	for key, values := range p.Msg.Header {
		switch {
		case key == protocol.HeaderBundle:
		case key == protocol.HeaderMsgID:
			if id, f = readMsgID(values); f == nil && len(id) > maxBundleID {
				f = failure.Newf(400, "%s of a bundle has %d bytes: allowed are %d", key, len(id), maxBundleID)
			}
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			f = failure.Newf(400, "header %s of a bundle: expected it among the headers of each item that it is for", failure.Quote(key))
		default:
			_, f = travelsWithItem(key, values, p.Subject.Queue)
		}
		if f != nil {
			return "", f
		}
	}
	return id, nil
}

// readFrame reads the next item of the rest of a bundle. lines is memory for its headers.
func (p *push) readFrame(wr *wire, item *fdbpq.NewItem, lines nats.Header, rest []byte) ([]byte, *failure.Failure) {
	headers, payload, rest, err := protocol.NextFrame(rest)
	if err != nil {
		return nil, failure.BadRequest(err)
	}
	*item = fdbpq.NewItem{Payload: payload, Priority: p.Subject.Priority, HasPriority: p.Subject.HasPriority}
	if len(headers) > 0 {
		if f := readLines(headers, lines); f != nil {
			return nil, f
		}
		h := itemHeaders{wire: wr, subject: &p.Subject, item: item}
		if f := h.readAll(lines); f != nil {
			return nil, f
		}
	}
	return rest, wr.answerLimit.admit(payload, item.Headers, item.Key, item.Unique, 0, nil)
}

// readLines reads the header lines of an item in a bundle.
func readLines(lines []byte, to nats.Header) *failure.Failure {
	if len(lines) > protocol.MaxHeaderBytes {
		return failure.Newf(413, "the headers have %d bytes: allowed are %d", len(lines), protocol.MaxHeaderBytes)
	}
	clear(to)
	for n := 0; len(lines) > 0; n++ {
		if n == protocol.MaxHeaderLines {
			return failure.Newf(413, "there are more headers than %d, which are allowed", n)
		}
		name, value, rest, err := protocol.NextHeader(lines)
		if err != nil {
			return failure.BadRequest(err)
		}
		to[name] = append(to[name], value)
		lines = rest
	}
	return nil
}

// bundleError is why a bundle is refused, for the reason of one of its items. The other
// requests of its transaction have nothing to do with it.
type bundleError struct{ of *failure.Failure }

func (e *bundleError) Error() string { return e.of.Text }
func (e *bundleError) Unwrap() error { return e.of }

// refusedBundle returns the first of some pushes that is a bundle with a refused item, and
// the reason.
func (l *pushes) refusedBundle(requests []*push) (int, error) {
	pushed := l.pushed
	for i, r := range requests {
		n := r.Count()
		if r.bundle != nil {
			for k := range pushed[:n] {
				if err := pushed[k].Err; err != nil {
					return i, &bundleError{failure.Explain(err).OfItem(k)}
				}
			}
		}
		pushed = pushed[n:]
	}
	return len(requests), nil
}

// ofBundle reports whether an error concerns one bundle and no other push.
func ofBundle(err error) bool {
	var refused *bundleError
	return errors.As(err, &refused)
}

// appendPubAcks appends the answer to a bundle.
func appendPubAcks(b []byte, queue string, pushed []fdbpq.Pushed) []byte {
	b = append(b, `{"type":"`+protocol.PushResponseType+`","stream":"`...)
	b = append(b, queue...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, pushed[len(pushed)-1].Seq, 10)
	if !slices.ContainsFunc(pushed, func(p fdbpq.Pushed) bool { return !p.Duplicate }) {
		b = append(b, `,"duplicate":true`...)
	}
	b = append(b, `,"items":[`...)
	for i := range pushed {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendPushed(b, &pushed[i])
		b = append(b, '}')
	}
	return append(b, ']', '}')
}
