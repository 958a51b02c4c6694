package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// itemFields are the fields of an item in a push of many.
var itemFields = append([]string{"payload", "payload_base64", "headers"}, slices.DeleteFunc(slices.Clone(pushParameters), func(name string) bool { return name == "header" })...)

// pushMany pushes items in one message: all of them, or none. The body has a JSON object for
// each, in an array or one after another.
func pushMany(in *input) (*answer, *refusal) {
	objects, why := readObjects(in.body)
	if why != nil {
		return nil, why
	}
	m, why := in.message(subjects.Subject{Verb: subjects.Push}, nil)
	if why != nil {
		return nil, why
	}
	for i, object := range objects {
		if m.Data, why = appendItem(m.Data, object); why != nil {
			why.Description = "item " + strconv.Itoa(i) + ": " + why.Description
			why.Item = &i
			return nil, why
		}
	}
	m.Header.Set(protocol.HeaderBundle, strconv.Itoa(len(objects)))
	if why := in.setHeader(m, "msg_id", protocol.HeaderMsgID); why != nil {
		return nil, why
	}
	addTrace(m.Header, in.header)
	return in.relay(m)
}

// readObjects reads the items of a body, up to as many as one request may have.
func readObjects(body []byte) (objects []map[string]json.RawMessage, why *refusal) {
	broken := func(err error) *refusal {
		n := len(objects)
		why := refusef(protocol.CodeBadRequest, "item %d: %s: expected a JSON object such as {\"payload\":\"x\"}, in an array or one a line", n, err)
		why.Item = &n
		return why
	}
	d := json.NewDecoder(bytes.NewReader(body))
	array := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return nil, broken(err)
		}
	}
	for !array || d.More() {
		var text json.RawMessage
		var object map[string]json.RawMessage
		err := d.Decode(&text)
		if errors.Is(err, io.EOF) && !array {
			break
		}
		if err == nil {
			err = jsontext.Check(text)
		}
		if err == nil && (json.Unmarshal(text, &object) != nil || object == nil) {
			err = fmt.Errorf("found %.40s", text)
		}
		if err != nil {
			return nil, broken(err)
		}
		if len(objects) == protocol.MaxBundle {
			return nil, refusef(protocol.CodeTooLarge, "there are more items than %d, which are allowed", protocol.MaxBundle)
		}
		objects = append(objects, object)
	}
	if array {
		if _, err := d.Token(); err != nil {
			return nil, broken(err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, refusef(protocol.CodeBadRequest, "there is more behind the array: expected nothing")
		}
	}
	if len(objects) == 0 {
		return nil, refusef(protocol.CodeBadRequest, "the body has no items: expected 1 to %d JSON objects, in an array or one a line", protocol.MaxBundle)
	}
	return objects, nil
}

// appendItem appends the frame of an item.
func appendItem(b []byte, object map[string]json.RawMessage) ([]byte, *refusal) {
	var payload, lines []byte
	line := func(name, value string) {
		lines = append(append(append(append(lines, name...), ": "...), value...), '\n')
	}
	if object["payload"] != nil && object["payload_base64"] != nil {
		return nil, refusef(protocol.CodeBadRequest, "payload together with payload_base64: expected one of them")
	}
	for _, field := range slices.Sorted(maps.Keys(object)) {
		value := object[field]
		switch field {
		case "payload":
			var text *string
			if json.Unmarshal(value, &text) != nil || text == nil {
				return nil, refusef(protocol.CodeBadRequest, "payload is %.40s: expected a string", value)
			}
			payload = []byte(*text)
		case "payload_base64":
			if json.Unmarshal(value, &payload) != nil || payload == nil {
				return nil, refusef(protocol.CodeBadRequest, "payload_base64 is %.40s: expected a string of base64", value)
			}
		case "headers":
			headers, why := readItemHeaders(value)
			if why != nil {
				return nil, why
			}
			for _, name := range slices.Sorted(maps.Keys(headers)) {
				for _, value := range headers[name] {
					line(name, strings.TrimSpace(value))
				}
			}
		default:
			header, text, why := readField(field, value)
			if why != nil {
				return nil, why
			}
			line(header, text)
		}
	}
	return protocol.AppendFrame(b, lines, payload), nil
}

// readField reads a field that is a header of the protocol.
func readField(field string, value json.RawMessage) (header, text string, why *refusal) {
	for _, h := range pushHeaders {
		if h.parameter == field {
			header = h.header
		}
	}
	if field == "priority" {
		header = protocol.HeaderPriority
	}
	if header == "" {
		return "", "", refusef(protocol.CodeBadRequest, "field %q: expected some of %s", field, strings.Join(itemFields, ", "))
	}
	if field == "priority" || field == "weight" {
		var n *int64
		if json.Unmarshal(value, &n) != nil || n == nil {
			return "", "", refusef(protocol.CodeBadRequest, "%s is %.40s: expected an integer", field, value)
		}
		return header, strconv.FormatInt(*n, 10), nil
	}
	var s *string
	if json.Unmarshal(value, &s) != nil || s == nil {
		return "", "", refusef(protocol.CodeBadRequest, "%s is %.40s: expected a string", field, value)
	}
	return header, *s, oneLine(field, *s)
}

// readItemHeaders reads the headers that stay with an item: each is a string, or a list of them.
func readItemHeaders(value json.RawMessage) (map[string][]string, *refusal) {
	var all map[string]json.RawMessage
	if json.Unmarshal(value, &all) != nil || all == nil {
		return nil, refusef(protocol.CodeBadRequest, "headers are %.40s: expected an object such as {\"Season\":\"autumn\"}", value)
	}
	headers := make(map[string][]string, len(all))
	for name, value := range all {
		var one *string
		var several []string
		switch {
		case json.Unmarshal(value, &one) == nil && one != nil:
			several = []string{*one}
		case json.Unmarshal(value, &several) != nil || several == nil:
			return nil, refusef(protocol.CodeBadRequest, "header %s is %.40s: expected a string, or a list of strings", name, value)
		}
		for _, text := range several {
			if why := checkItemHeader(name, text, "a field of the item: "+strings.Join(itemFields, ", ")); why != nil {
				return nil, why
			}
		}
		headers[name] = several
	}
	return headers, nil
}
