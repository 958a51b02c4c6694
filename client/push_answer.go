package client

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/pqbridge/pqbridge/protocol"
)

// readResults reads the results of the items of a bundle. If all items were added, it reads the answer without
// encoding/json, which would be an eighth of a client's work for a push.
func readResults(body []byte) ([]protocol.PushResult, error) {
	if results, ok := readPlainResults(body); ok {
		return results, nil
	}
	var a protocol.PushResponse
	err := json.Unmarshal(body, &a)
	return a.Items, err
}

// readPlainResults reads an answer in which all items were added, and reports false for any other.
func readPlainResults(body []byte) (results []protocol.PushResult, ok bool) {
	_, rest, ok := bytes.Cut(body, []byte(`,"items":[`))
	results = make([]protocol.PushResult, 0, len(rest)/minResult)
	for more := ok; more; {
		var r protocol.PushResult
		text := words{rest, true}
		text.skip(`{"seq":`)
		r.Seq = text.number()
		r.Duplicate = text.has(`,"duplicate":true`)
		text.skip(`,"id":"`)
		r.ID = text.plain()
		text.skip(`","priority":`)
		r.Priority = text.number()
		r.Evicted = text.has(`,"evicted":true`)
		text.skip("}")
		if more = text.has(","); !more {
			text.skip("]}")
			ok = text.ok && len(text.rest) == 0
		}
		more, rest = more && text.ok, text.rest
		ok = ok && text.ok
		results = append(results, r)
	}
	return results, ok
}

// minResult is the length of the shortest result.
const minResult = len(`{"seq":1,"id":"","priority":0},`)

// words reads a text that has to consist of the expected words.
type words struct {
	rest []byte
	ok   bool
}

func (w *words) has(text string) bool {
	rest, has := bytes.CutPrefix(w.rest, []byte(text))
	w.rest = rest
	return has
}

func (w *words) skip(text string) { w.ok = w.has(text) && w.ok }

// number reads an integer in decimal.
func (w *words) number() int64 {
	end := 0
	for end < len(w.rest) && (w.rest[end] == '-' || w.rest[end] >= '0' && w.rest[end] <= '9') {
		end++
	}
	n, err := strconv.ParseInt(string(w.rest[:end]), 10, 64)
	w.ok = w.ok && err == nil
	w.rest = w.rest[end:]
	return n
}

// plain reads text without escapes, up to a quotation mark.
func (w *words) plain() string {
	end := bytes.IndexByte(w.rest, '"')
	if end < 0 || bytes.IndexByte(w.rest[:end], '\\') >= 0 {
		w.ok = false
		return ""
	}
	text := string(w.rest[:end])
	w.rest = w.rest[end:]
	return text
}
