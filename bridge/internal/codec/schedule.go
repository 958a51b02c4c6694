package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/protocol"
)

// ReadScheduleItem reads the item in the body of a schedule, nil if the body has none. The core reads the rest of
// the body, without the item, which is its largest part.
func (w *Wire) ReadScheduleItem(queue string, object []byte) (item *schedule.Item, rest []byte, f *failure.Failure) {
	if f := checkSchedule(object); f != nil {
		return nil, nil, f
	}
	if f := checkJSON("schedule", object); f != nil {
		return nil, nil, f
	}
	if !json.Valid(object) {
		return nil, object, nil // the core refuses it
	}
	before, value, after, found := jsontext.Cut(string(object), "item")
	if !found {
		return nil, object, nil
	}
	item, f = w.readScheduleItem(queue, []byte(value))
	return item, []byte(before + "{}" + after), f
}

func (w *Wire) readScheduleItem(queue string, object []byte) (*schedule.Item, *failure.Failure) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil || fields == nil {
		return nil, failure.Newf(400, "item is %s: expected a JSON object", failure.JSON(object))
	}
	item := new(schedule.Item)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if f := readItemField(item, queue, name, fields[name]); f != nil {
			return nil, f
		}
	}
	if fields["payload"] != nil && fields["payload_base64"] != nil {
		return nil, failure.Newf(400, "item: payload together with payload_base64: expected one of them")
	}
	if item.Weight != 0 && item.Key == "" {
		return nil, failure.Newf(400, "item: weight without key: expected the key that it is about")
	}
	return item, w.Limit.Admit(item.Payload, append(bytes.Clone(item.Headers), make([]byte, scheduleLines)...), item.Key, shown{}, 0, nil)
}

// ReadRun reads a request that pushes the item of a schedule.
func ReadRun(m *nats.Msg, verb string) (msgID string, f *failure.Failure) {
	if f = NoOptions(m, verb); f == nil && len(m.Header[protocol.HeaderMsgID]) > 0 {
		msgID, f = readMsgID(m.Header[protocol.HeaderMsgID])
	}
	return msgID, f
}

// scheduleLines bounds the header lines that a schedule adds to its items.
const scheduleLines = len(protocol.HeaderSchedule) + len(protocol.HeaderScheduledAt) + 2*lineFrame + schedule.MaxName + len(time.RFC3339Nano)

func readItemField(item *schedule.Item, queue, name string, value json.RawMessage) (f *failure.Failure) {
	read := func(to any, expected string) *failure.Failure {
		if err := json.Unmarshal(value, to); err != nil || string(value) == "null" {
			return failure.Newf(400, "item: %s is %s: expected %s", name, failure.JSON(value), expected)
		}
		return nil
	}
	switch name {
	case "payload":
		var text string
		f = read(&text, "a string")
		item.Payload = []byte(text)
	case "payload_base64":
		f = read(&item.Payload, "base64")
	case "priority":
		item.HasPriority = true
		f = read(&item.Priority, "an integer")
	case "weight":
		if f = read(&item.Weight, "an integer"); f == nil && (item.Weight < 1 || item.Weight > fdbpq.MaxWeight) {
			f = failure.Newf(400, "item: weight is %d: expected 1 to %d", item.Weight, fdbpq.MaxWeight)
		}
	case "cost":
		if f = read(&item.Cost, "an integer"); f == nil && (item.Cost < 1 || item.Cost > fdbpq.MaxCost) {
			f = failure.Newf(400, "item: cost is %d: expected 1 to %d", item.Cost, fdbpq.MaxCost)
		}
	case "key":
		if f = read(&item.Key, "a string"); f == nil {
			_, f = ReadKey("item: key", item.Key)
		}
	case "ttl":
		var text string
		if f = read(&text, "a duration such as 1h"); f == nil {
			item.TTL, f = ReadDuration("item: ttl", text, 1, fdbpq.MaxDelay)
		}
	case "headers":
		var headers map[string]json.RawMessage
		if f = read(&headers, `an object such as {"Name":"value"}`); f == nil {
			item.Headers, f = readScheduleHeaders(queue, headers)
		}
	default:
		f = failure.Newf(400, "item has no field %s: expected some of payload, payload_base64, headers, priority, key, weight, cost, ttl", failure.Quote(name))
	}
	return f
}

// readScheduleHeaders reads headers whose values are strings or lists of them.
func readScheduleHeaders(queue string, headers map[string]json.RawMessage) (lines []byte, f *failure.Failure) {
	count := 0
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		var one string
		var values []string
		if json.Unmarshal(headers[name], &one) == nil {
			values = []string{one}
		} else if json.Unmarshal(headers[name], &values) != nil {
			return nil, failure.Newf(400, "item: header %s: expected a string, or a list of strings", failure.Quote(name))
		}
		if count += len(values); count > protocol.MaxHeaderLines {
			return nil, failure.Newf(413, "item: there are more headers than %d, which are allowed", protocol.MaxHeaderLines)
		}
		if f := checkHeaderName(name); f != nil {
			return nil, ofItem(f)
		}
		switch {
		case strings.HasPrefix(name, protocol.HeaderPrefix):
			return nil, failure.Newf(400, "item: header %s: expected none with %s, but fields of the item and of the schedule", failure.Quote(name), protocol.HeaderPrefix)
		case name == protocol.HeaderMsgID:
			return nil, failure.Newf(400, "item: header %s: each item of a schedule is a new one", name)
		}
		for i, value := range values {
			values[i] = strings.Trim(value, " \t") // as on their way in a message
		}
		travels, f := travelsWithItem(name, values, queue)
		if f != nil {
			return nil, ofItem(f)
		}
		if !travels {
			return nil, failure.Newf(400, "item: header %s does not stay with an item", failure.Quote(name))
		}
		if lines, f = appendHeader(lines, name, values); f != nil {
			return nil, ofItem(f)
		}
	}
	return lines, nil
}

func ofItem(f *failure.Failure) *failure.Failure {
	return failure.Newf(f.Code, "item: %s", f.Text)
}

// Schedule is a schedule in the form of an answer; listed ones are without their items.
func Schedule(s *schedule.Schedule, listed bool) protocol.Schedule {
	shown := protocol.Schedule{
		Name: s.Name, Spec: s.Config.Spec, Zone: s.Config.Zone, Start: s.Config.Start, End: s.Config.End, Count: s.Config.Count,
		Overlap: string(s.Config.Overlap), CatchUp: protocol.Duration(s.Config.CatchUp), Missed: string(s.Config.Missed),
		Jitter: protocol.Duration(s.Config.Jitter), Paused: s.Config.Paused,
		Next: s.Next, Due: s.Due, Last: s.Last, Done: s.Done(), Full: s.Full,
		Counts: protocol.ScheduleCount{Fired: s.Fired, Missed: s.Missed, Overlapped: s.Overlapped},
	}
	if listed {
		return shown
	}
	item := &protocol.ScheduleItem{Key: s.Item.Key, Weight: s.Item.Weight, Cost: s.Item.Cost, TTL: protocol.Duration(s.Item.TTL)}
	if s.Item.HasPriority {
		item.Priority = &s.Item.Priority
	}
	if text := string(s.Item.Payload); utf8.ValidString(text) {
		item.Payload = &text
	} else {
		item.Base64 = s.Item.Payload
	}
	if len(s.Item.Headers) > 0 {
		headers := make(nats.Header)
		AddHeaders(headers, s.Item.Headers)
		item.Headers = headers
	}
	shown.Item = item
	return shown
}

// Requests of all clients are read one after another: a request that is too large is refused before it is read.

// checkSize refuses a part of a request with too many bytes.
func checkSize(what string, size, most int) *failure.Failure {
	if size > most {
		return failure.Newf(413, "%s has %d bytes: allowed are %d", what, size, most)
	}
	return nil
}

// CheckDefinition refuses the body of a definition if it is too large.
func CheckDefinition(body []byte) *failure.Failure {
	return checkSize("the body", len(body), protocol.MaxDefinition)
}

// checkSchedule refuses the body of a schedule if it is too large, with its payload or without. Its payload is its
// longest text.
func checkSchedule(body []byte) *failure.Failure {
	if f := checkSize("the schedule", len(body), protocol.MaxScheduleBody); f != nil {
		return f
	}
	return checkSize("the schedule beside its payload", len(body)-longest(body), protocol.MaxDefinition)
}

// longest is the length of the longest string of a JSON text, as it is written.
func longest(text []byte) (most int) {
	for {
		begin := bytes.IndexByte(text, '"')
		if begin < 0 {
			return most
		}
		text = text[begin+1:]
		end := 0
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		most = max(most, end)
		text = text[min(end+1, len(text)):]
	}
}
