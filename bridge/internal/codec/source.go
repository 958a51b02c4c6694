package codec

import (
	"encoding/json"
	"hash/crc32"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Sourced makes items from the messages of a source.
type Sourced struct {
	wire    *Wire
	subject subjects.Subject
	name    string
	values  []sourced
}

// sourced is a value of the items.
type sourced struct {
	header string // as in a push
	of     source.Value
}

// mapped are the headers of a push for the fields of a source's map.
var mapped = func() map[string]string {
	all := make(map[string]string)
	for i := range protocol.PushHeaders {
		if h := &protocol.PushHeaders[i]; h.Mapped {
			all[h.Word] = h.Name
		}
	}
	return all
}()

// Sourced returns a maker of items for a source of a queue. Constant values in the definition have to be values
// that a push may have.
func (w *Wire) Sourced(queue, name string, values map[string]source.Value) (*Sourced, *failure.Failure) {
	s := &Sourced{wire: w, subject: subjects.Subject{Queue: queue, Verb: subjects.Push}, name: name}
	for _, field := range source.Fields { // in their order
		value, is := values[field]
		if !is {
			continue
		}
		s.values = append(s.values, sourced{mapped[field], value})
		for _, text := range []string{value.Constant, value.Default} {
			h := itemHeaders{Wire: w, subject: &s.subject, item: new(fdbpq.NewItem)}
			if text == "" {
				continue
			}
			if f := h.readOurs(mapped[field], []string{text}); f != nil {
				return nil, failure.Newf(f.Code, "map: %s: %s", field, f.Text)
			}
		}
	}
	return s, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SourceMark is the mark of a message that a source keeps.
func SourceMark(seq uint64, at time.Time, subject string, payload []byte) source.Mark {
	hash := fnv.New64a()
	hash.Write([]byte(subject))
	return source.Mark{Seq: seq, Time: at.UnixNano(), Subject: hash.Sum64(), Content: crc32.Checksum(payload, castagnoli)}
}

// Headers by which the server acts on a message.
const (
	headerServerSchedule = "Nats-Schedule"
	headerMarker         = "Nats-Marker-Reason"
)

// Read makes an item from a message. The publisher decides only the properties that the source maps.
func (s *Sourced) Read(m *nats.Msg, seq uint64, at time.Time) source.Message {
	read := source.Message{Mark: SourceMark(seq, at, m.Subject, m.Data)}
	if m.Header[headerServerSchedule] != nil || m.Header[headerMarker] != nil {
		read.None = true
		return read
	}
	item := &read.Item
	item.Payload = m.Data
	h := itemHeaders{Wire: s.wire, subject: &s.subject, item: item}
	for _, v := range s.values {
		text, f := v.of.Constant, (*failure.Failure)(nil)
		switch {
		case v.of.Header != "" && len(m.Header[v.of.Header]) > 0:
			text, f = single(v.of.Header, m.Header[v.of.Header])
			text = strings.TrimRight(text, " ") // as of a push
		case v.of.Header != "":
			text = v.of.Default
		case v.of.Token > 0:
			if text = token(m.Subject, v.of.Token); text == "" {
				text = v.of.Default
			}
		}
		if f == nil && text != "" {
			f = h.readOurs(v.header, []string{text})
		}
		if f != nil && read.Refused == nil {
			read.Refused = f
		}
	}
	if f := h.end(); f != nil && read.Refused == nil {
		read.Refused = f
	}
	taken := taken{item, 0}
	for _, f := range []*failure.Failure{
		taken.foreign(m.Header),
		taken.own(protocol.HeaderSource, s.name),
		taken.own(protocol.HeaderSourceSubject, m.Subject),
		taken.own(protocol.HeaderSourceSeq, strconv.FormatUint(seq, 10)),
		taken.own(protocol.HeaderSourceTime, at.UTC().Format(time.RFC3339Nano)),
		taken.own(protocol.HeaderSourceMsgID, m.Header.Get(protocol.HeaderMsgID)),
	} {
		if f != nil && read.Refused == nil {
			read.Refused = f
		}
	}
	if f := taken.tooLarge(s.wire); f != nil {
		read.Large = f
	}
	return read
}

// taken is an item that a source makes from another system's message.
type taken struct {
	*fdbpq.NewItem
	lines int
}

// foreign gives the item the headers that travel with it. It leaves out headers on which a server or a bridge would
// act, and returns why it left out any other.
func (t *taken) foreign(header nats.Header) (refused *failure.Failure) {
	for key, values := range header {
		if strings.HasPrefix(key, "Nats-") || strings.HasPrefix(key, protocol.HeaderPrefix) || key == protocol.HeaderStatus {
			continue
		}
		longer, f := appendHeader(t.Headers, key, values)
		if f != nil {
			refused = f
			continue
		}
		t.Headers, t.lines = longer, t.lines+len(values)
	}
	return refused
}

// own gives the item a header about its origin, unless the value is empty.
func (t *taken) own(key, value string) *failure.Failure {
	if value == "" {
		return nil
	}
	longer, f := appendHeader(t.Headers, key, []string{value})
	if f == nil {
		t.Headers, t.lines = longer, t.lines+1
	}
	return f
}

// tooLarge says why the item is too large even for a dead letter, or nil.
func (t *taken) tooLarge(w *Wire) *failure.Failure {
	if f := w.Limit.Admit(t.Payload, t.Headers, t.Key, shownOfPushed(t.NewItem), 0, nil); f != nil {
		return f
	}
	if t.lines > protocol.MaxHeaderLines || len(t.Headers) > protocol.MaxHeaderBytes {
		return failure.Newf(413, "the message has %d headers in %d bytes: allowed are %d in %d", t.lines, len(t.Headers), protocol.MaxHeaderLines, protocol.MaxHeaderBytes)
	}
	return nil
}

// token is the n-th token of a subject, "" if it has less.
func token(subject string, n int) (token string) {
	for more := true; n > 0; n-- {
		if !more {
			return ""
		}
		token, subject, more = strings.Cut(subject, ".")
	}
	return token
}

// ReadSourceResume reads where a source goes on.
func ReadSourceResume(m *nats.Msg, verb string) (from source.Resume, f *failure.Failure) {
	fields := 0
	f = ReadOptions(m, verb, "from_seq, from_time, skip, accept", func(name string, value any) (known bool, f *failure.Failure) {
		fields++
		switch name {
		case "from_seq":
			var n int64
			n, f = ReadInteger(name, value, 1, math.MaxInt64)
			from.FromSeq = uint64(n)
		case "from_time":
			var at time.Time
			if at, f = readTime(name, value); f == nil {
				from.FromTime = &at
			}
		case "skip":
			from.Skip, f = readTrue(name, value)
		case "accept":
			from.Accept, f = readTrue(name, value)
		default:
			return false, nil
		}
		return true, f
	})
	if f == nil && fields > 1 {
		f = failure.Newf(400, "expected one of from_seq, from_time, skip, accept")
	}
	return from, f
}

// readTrue reads a field that may only be true.
func readTrue(what string, value any) (bool, *failure.Failure) {
	if value != true {
		return false, failure.Newf(400, "%s: expected true", what)
	}
	return true, nil
}

// Source is a source in the form of an answer.
func Source(s *source.Source) (protocol.Source, error) {
	p := &s.Position
	shown := protocol.Source{
		Name: s.Name, Remote: s.Config.Remote, Stream: s.Config.Stream, Queue: s.Config.Queue,
		Link: s.Config.Link, Mode: string(s.Config.Mode), Filter: s.Config.Filter,
		Batch: s.Config.Batch, Paused: s.Config.Paused, State: string(s.State), Seq: p.Seq, Last: s.Run.Last, Lag: s.Lag(), Runner: s.Run.Runner,
		Counts: protocol.SourceCounts{Delivered: p.Delivered, Skipped: p.Skipped, Poisoned: p.Poisoned},
	}
	if p.Time != 0 {
		shown.Time = time.Unix(0, p.Time).UTC()
	}
	switch s.State {
	case source.StateStopped:
		shown.Reason = string(p.Stop.Reason) + ": " + p.Stop.Text
	case source.StateBlocked:
		shown.Reason = "the queue or the store is full"
	case source.StateFailing:
		shown.Reason = s.Run.Problem
	case source.StateNoRunner:
		shown.Reason, shown.Runner = "no pqd has said that it runs it: see PQ_REMOTES of each", ""
	}
	if since := s.Since(); since != 0 {
		shown.Since = time.Unix(0, since).UTC()
	}
	if s.Config.OfLink() {
		shown.Mode, shown.Last = "", 0
		return shown, nil
	}
	var err error
	if shown.Start, err = protocol.Marshal(s.Config.Start); err != nil {
		return shown, err
	}
	for field, value := range s.Config.Map {
		if shown.Map == nil {
			shown.Map = make(map[string]json.RawMessage)
		}
		if shown.Map[field], err = protocol.Marshal(value); err != nil {
			return shown, err
		}
	}
	return shown, nil
}
