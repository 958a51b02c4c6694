package codec

import (
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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
