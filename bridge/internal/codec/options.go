package codec

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// noBody refuses a body that would be ignored.
func noBody(m *nats.Msg, verb string) *failure.Failure {
	if len(bytes.TrimSpace(m.Data)) > 0 {
		return failure.Newf(400, "%s has the body %s: expected none", verb, failure.Quote(string(m.Data)))
	}
	return nil
}

// NoOwnHeaders refuses PQ- headers of a request that defines none.
func NoOwnHeaders(header nats.Header, what string) *failure.Failure {
	for key := range header {
		if strings.HasPrefix(key, protocol.HeaderPrefix) {
			return failure.Newf(400, "header %s is none of %s: expected no %s header", failure.Quote(key), what, protocol.HeaderPrefix)
		}
	}
	return nil
}

// NoOptions refuses a body and PQ- headers of a request without options.
func NoOptions(m *nats.Msg, verb string) *failure.Failure {
	if f := NoOwnHeaders(m.Header, verb); f != nil {
		return f
	}
	return noBody(m, verb)
}

// ReadOptions reads the options in the body of a request, each with field: see [ReadObject].
func ReadOptions(m *nats.Msg, verb, fields string, field func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	return readOptions(m.Header, "the body", m.Data, verb, fields, field)
}

// ReadOptionsOf is ReadOptions of a request that mistakes name, such as "revoke". Spaces around its body do not count.
func ReadOptionsOf(request string, m *nats.Msg, verb, fields string, field func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	return readOptions(m.Header, "the body of a "+request, bytes.TrimSpace(m.Data), verb, fields, field)
}

func readOptions(header nats.Header, what string, body []byte, verb, fields string,
	field func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	if f := NoOwnHeaders(header, verb); f != nil {
		return f
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return ReadObject(what, body, fields, field)
}

// ReadFlags reads the options in the body of a request that are true or false.
func ReadFlags(m *nats.Msg, verb string, flags map[string]*bool) *failure.Failure {
	fields := strings.Join(slices.Sorted(maps.Keys(flags)), ", ")
	return ReadOptions(m, verb, fields, func(name string, value any) (known bool, f *failure.Failure) {
		flag := flags[name]
		if flag == nil {
			return false, nil
		}
		*flag, f = ReadBool(name, value)
		return true, f
	})
}

// ReadLimit reads the length of a page.
func ReadLimit(name string, value any) (int, *failure.Failure) {
	n, f := ReadInteger(name, value, 1, math.MaxInt64)
	return int(min(n, fdbpq.MaxBatch)), f
}

// ReadState reads the state of items.
func ReadState(name string, value any) (fdbpq.State, *failure.Failure) {
	s, f := ReadString(name, value)
	switch state := fdbpq.State(s); state {
	case fdbpq.StateReady, fdbpq.StateLeased, fdbpq.StateDelayed:
		return state, f
	}
	if f == nil {
		f = failure.Newf(400, `%s is %s: expected "ready", "leased" or "delayed"`, name, failure.Quote(s))
	}
	return "", f
}

// ReadBand reads the least or the greatest priority of a band. A nil band stands for all priorities so far.
func ReadBand(band *fdbpq.Band, name string, least bool, value any) (*fdbpq.Band, *failure.Failure) {
	n, f := ReadInteger(name, value, math.MinInt64, math.MaxInt64)
	if band == nil {
		band = new(fdbpq.AllPriorities)
	}
	if least {
		band.Low = n
	} else {
		band.High = n
	}
	return band, f
}

// single returns the value of a PQ- header.
func single(key string, values []string) (string, *failure.Failure) {
	if len(values) != 1 {
		return "", failure.Newf(400, "header %s occurs %d times: expected once", key, len(values))
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

// ReadKey reads a key.
func ReadKey(key, value string) (string, *failure.Failure) {
	if err := fdbpq.CheckKey(value); err != nil {
		return "", failure.Newf(400, "%s: %s", key, err)
	}
	return value, nil
}

// ReadUnique reads a unique value.
func ReadUnique(key, value string) (string, *failure.Failure) {
	value, f := readUTF8(key, value, fdbpq.MaxUnique)
	if f == nil && strings.HasPrefix(value, "\x00") {
		f = failure.Newf(400, "%s begins with a zero byte: such values are those of schedules", key)
	}
	return value, f
}

// ReadResultTTL reads for how long what becomes of an item is kept.
func ReadResultTTL(key, value string) (time.Duration, *failure.Failure) {
	return ReadDuration(key, value, 1, fdbpq.MaxResultTTL)
}

// readUTF8 reads a text. JSON has to carry it in lists and exports.
func readUTF8(key, value string, most int) (string, *failure.Failure) {
	switch {
	case len(value) > most:
		return "", failure.Newf(400, "%s has %d bytes: allowed are %d", key, len(value), most)
	case !utf8.ValidString(value):
		return "", failure.Newf(400, "%s is %s: expected UTF-8", key, failure.Quote(value))
	}
	return value, nil
}

// readWord reads one of some words.
func readWord[T ~string](key, value string, words ...string) (T, *failure.Failure) {
	if !slices.Contains(words, value) {
		return "", failure.Newf(400, "%s is %s: expected %s", key, failure.Quote(value), choice(words))
	}
	return T(value), nil
}

// readFlag reads the only word that a header may have.
func readFlag(key, value, word string) (bool, *failure.Failure) {
	_, f := readWord[string](key, value, word)
	return f == nil, f
}

// choice is a list of words in a sentence.
func choice(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ReadDuration reads a duration such as 1h30m.
func ReadDuration(what, s string, least, most time.Duration) (time.Duration, *failure.Failure) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, failure.Newf(400, "%s is %s: expected a duration such as 30s or 1h30m", what, failure.Quote(s))
	}
	return d, checkDuration(what, d, least, most)
}

// readDelay reads the text of a delay of items.
func readDelay(what string, value any) (time.Duration, *failure.Failure) {
	text, f := ReadString(what, value)
	if f != nil {
		return 0, f
	}
	return ReadDuration(what, text, 0, fdbpq.MaxDelay)
}

func checkDuration(what string, d, least, most time.Duration) *failure.Failure {
	if d >= least && d <= most {
		return nil
	}
	switch {
	case most == math.MaxInt64 && least <= 0:
		return failure.Newf(400, "%s is %s: expected 0s or more", what, d)
	case least > 0:
		return failure.Newf(400, "%s is %s: expected more than 0s, up to %s", what, d, most)
	}
	return failure.Newf(400, "%s is %s: expected 0s to %s", what, d, most)
}

// ParseTime reads a time. It refuses the zero time, which would count as none.
func ParseTime(what, text string) (time.Time, *failure.Failure) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, failure.Newf(400, "%s is %s: expected a time such as 2030-01-02T15:04:05Z", what, failure.Quote(text))
	}
	if at.IsZero() {
		return at, failure.Newf(400, "%s is %s: expected a later time", what, failure.Quote(text))
	}
	return at, nil
}

func readTime(what string, value any) (time.Time, *failure.Failure) {
	s, f := ReadString(what, value)
	if f != nil {
		return time.Time{}, f
	}
	return ParseTime(what, s)
}

// CheckQueueName refuses an invalid name of a queue.
func CheckQueueName(name string) *failure.Failure {
	if err := subjects.CheckQueue(name); err != nil {
		return failure.BadRequest(err)
	}
	return nil
}
