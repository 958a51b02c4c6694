package source

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// The bounds of a definition.
const (
	MaxBatch   = 1000
	MaxFilters = 16

	maxText = 255 // of a remote, a stream, a filter, or a value
	maxMap  = 4 << 10
)

// Config is what an administrator sets of a source.
type Config struct {
	Remote string           `json:"remote"`
	Stream string           `json:"stream,omitempty"`
	Queue  string           `json:"queue,omitempty"` // instead of a stream: the subject of a queue of another store,
	Link   string           `json:"link,omitempty"`  // and the name of its link
	Mode   Mode             `json:"mode"`
	Filter []string         `json:"filter,omitempty"`
	Start  Start            `json:"start"`
	Map    map[string]Value `json:"map,omitempty"`
	Batch  int              `json:"batch"`
	Paused bool             `json:"paused"`
}

// Mode says what happens to the messages in the stream.
type Mode string

const (
	ModeCopy Mode = "copy" // they stay there
	ModeTake Mode = "take" // they are acknowledged
)

// OfLink reports whether the source takes from a link.
func (c *Config) OfLink() bool { return c.Link != "" }

var fieldNames = []string{"remote", "stream", "queue", "link", "mode", "filter", "start", "map", "batch", "paused"}

func defaultConfig() Config {
	return Config{Mode: ModeCopy, Start: Start{Word: StartFirst}, Batch: 512}
}

// merge returns the definition with the fields of the JSON object replaced.
func (c Config) merge(object []byte) (Config, error) {
	if err := jsonfields.Check(object, fieldNames, false); err != nil {
		return c, wrong(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return c, wrong(err)
	}
	if fields["map"] != nil {
		c.Map = nil // it is replaced as a whole
		if err := checkMapped(fields["map"]); err != nil {
			return c, wrong(err)
		}
	}
	if fields["filter"] != nil {
		c.Filter = nil
	}
	if fields["link"] != nil && !c.OfLink() {
		c.Batch = MaxBatch // each batch costs a round trip
	}
	if err := jsonfields.Decode(object, &c); err != nil {
		return c, wrong(err)
	}
	return c, wrong(c.check())
}

// checkMapped refuses values that no item has before any of them is read: there are few others.
func checkMapped(object []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil // it is no object, as decode says
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(Fields, field) {
			return jsonfields.Errorf("map has %.100q: expected some of %s", field, strings.Join(Fields, ", "))
		}
	}
	return nil
}

func (c *Config) check() error {
	names := []struct{ field, value string }{{"remote", c.Remote}, {"stream", c.Stream}}
	if c.OfLink() || c.Queue != "" {
		if err := c.checkLink(); err != nil {
			return err
		}
		names = names[:1]
	}
	for _, text := range names {
		switch {
		case text.value == "":
			return jsonfields.Errorf("%s is missing: expected the remote and the stream that the source reads", text.field)
		case len(text.value) > maxText || strings.ContainsAny(text.value, " \t\r\n.*>/\\\x00"):
			return jsonfields.Errorf("%s is %.100q: expected a name without spaces, dots, slashes, * and >", text.field, text.value)
		}
	}
	switch {
	case c.Mode != ModeCopy && c.Mode != ModeTake:
		return jsonfields.Errorf("mode is %q: expected copy or take", c.Mode)
	case c.Mode == ModeTake && c.Start.Word != StartFirst:
		return jsonfields.Errorf("start with the mode take: expected first, as the server has what nobody has acknowledged")
	case c.Batch < 1 || c.Batch > MaxBatch:
		return jsonfields.Errorf("batch is %d: allowed are 1 to %d", c.Batch, MaxBatch)
	}
	if err := checkFilter(c.Filter); err != nil {
		return err
	}
	size := 0
	for field, value := range c.Map {
		size += len(field) + len(value.Constant) + len(value.Header) + len(value.Default)
	}
	if size > maxMap {
		return jsonfields.Errorf("map has %d bytes: allowed are %d", size, maxMap)
	}
	return nil
}

// checkLink checks what a source of a link has instead of a stream.
func (c *Config) checkLink() error {
	tokens := strings.Split(c.Queue, ".")
	switch {
	case c.Stream != "" || c.Mode != ModeCopy || c.Start.Word != StartFirst || len(c.Filter)+len(c.Map) > 0:
		return jsonfields.Errorf("a source of a link has remote, queue, link, batch and paused: it takes the items as they are")
	case len(tokens) < 2 || slices.Contains(tokens, "") || len(c.Queue) > maxText || strings.ContainsAny(c.Queue, " \t\r\n*>/\\\x00"):
		return jsonfields.Errorf("queue is %.100q: expected the prefix of the other side and its queue, such as edge7.orders", c.Queue)
	}
	if err := named.CheckName(c.Link); err != nil {
		return jsonfields.Errorf("link: %s", err.Error())
	}
	return nil
}

// readsLike reports whether a definition leads to the same messages as another one, in the same mode.
func (c *Config) readsLike(other *Config) bool {
	return c.Remote == other.Remote && c.Stream == other.Stream && c.Mode == other.Mode && c.Queue == other.Queue && c.Link == other.Link
}

// checkFilter refuses filters that no server takes.
func checkFilter(filter []string) error {
	if len(filter) > MaxFilters {
		return jsonfields.Errorf("filter has %d subjects: allowed are %d", len(filter), MaxFilters)
	}
	for i, subject := range filter {
		if subject == "" || len(subject) > maxText || strings.ContainsAny(subject, " \t\r\n\x00") || slices.Contains(strings.Split(subject, "."), "") {
			return jsonfields.Errorf("filter has %.100q: expected subjects", subject)
		}
		for _, other := range filter[:i] {
			if subjectsOverlap(other, subject) {
				return jsonfields.Errorf("filter has %.100q and %.100q: expected subjects that do not overlap", other, subject)
			}
		}
	}
	return nil
}

// subjectsOverlap reports whether a subject may match both.
func subjectsOverlap(one, other string) bool {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == ">" || b[i] == ">":
			return true
		case a[i] != b[i] && a[i] != "*" && b[i] != "*":
			return false
		}
	}
	return len(a) == len(b)
}

// Start says with which message a source begins: first, new, a sequence or a time.
type Start struct {
	Word string     // "first" or "new", or
	Seq  uint64     // one of these
	Time *time.Time //
}

// The words of a Start.
const (
	StartFirst = "first"
	StartNew   = "new"
)

func (s Start) equal(other Start) bool {
	same := s.Word == other.Word && s.Seq == other.Seq && (s.Time == nil) == (other.Time == nil)
	return same && (s.Time == nil || s.Time.Equal(*other.Time))
}

// MarshalJSON implements json.Marshaler.
func (s Start) MarshalJSON() ([]byte, error) {
	switch {
	case s.Time != nil:
		return json.Marshal(map[string]time.Time{"time": *s.Time})
	case s.Seq > 0:
		return json.Marshal(map[string]uint64{"seq": s.Seq})
	}
	return json.Marshal(s.Word)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Start) UnmarshalJSON(b []byte) error {
	expected := jsonfields.Errorf(`start is %s: expected "first", "new", {"seq":<n>} with n from 1, or {"time":"<RFC 3339>"}`, b)
	*s = Start{}
	if json.Unmarshal(b, &s.Word) == nil {
		if s.Word != StartFirst && s.Word != StartNew {
			return expected
		}
		return nil
	}
	if jsonfields.Check(b, []string{"seq", "time"}, false) != nil {
		return expected
	}
	var object struct {
		Seq  uint64
		Time *time.Time
	}
	if json.Unmarshal(b, &object) != nil || (object.Seq == 0) == (object.Time == nil) {
		return expected
	}
	s.Seq, s.Time = object.Seq, object.Time
	return nil
}

// Value is where a value of an item comes from: it is the same for all, that of a header of the message, or a
// token of its subject.
type Value struct {
	Constant string
	Header   string
	Token    int // from 1
	Default  string
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Header == "" && v.Token == 0 {
		return json.Marshal(v.Constant)
	}
	return json.Marshal(struct {
		Header  string `json:"header,omitempty"`
		Token   int    `json:"token,omitempty"`
		Default string `json:"default,omitempty"`
	}{v.Header, v.Token, v.Default})
}

// UnmarshalJSON implements json.Unmarshaler. A number is as good as its text.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	if text, is := scalar(b); is {
		v.Constant = text
		return nil
	}
	expected := jsonfields.Errorf(`map has %s: expected a text, a number, {"header":"<name>"} or {"token":<n>}, with a "default" if there is to be one`, b)
	if jsonfields.Check(b, []string{"header", "token", "default"}, false) != nil {
		return expected
	}
	var object struct {
		Header  string
		Token   int
		Default json.RawMessage
	}
	if json.Unmarshal(b, &object) != nil || object.Token < 0 || (object.Header == "") == (object.Token == 0) {
		return expected
	}
	v.Header, v.Token = object.Header, object.Token
	if object.Default != nil {
		text, is := scalar(object.Default)
		if !is {
			return expected
		}
		v.Default = text
	}
	return nil
}

// scalar is the text of a JSON string or number that is not empty.
func scalar(b []byte) (text string, is bool) {
	var number json.Number
	switch {
	case len(b) > 0 && b[0] == '"':
		is = json.Unmarshal(b, &text) == nil
	case json.Unmarshal(b, &number) == nil:
		text, is = number.String(), true
	}
	return text, is && text != ""
}

// Fields are the values of items that a source maps.
var Fields = []string{"priority", "key", "weight", "delay", "not_before", "ttl", "unique", "on_conflict", "cost"}
