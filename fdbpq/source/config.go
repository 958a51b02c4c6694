package source

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

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
