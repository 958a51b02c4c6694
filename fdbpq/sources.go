package fdbpq

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A source feeds a queue from a stream outside the store. What it is lies in one row, how far it is in
// another one, which the transaction that pushes depends on and moves on. This package never speaks with the stream: a
// bridge fetches, and says what it found.

// SourceConfig is what an administrator sets of a source.
type SourceConfig struct {
	Remote string                 `json:"remote"`
	Stream string                 `json:"stream,omitempty"`
	Queue  string                 `json:"queue,omitempty"` // instead of a stream: the subject of a queue of another store,
	Link   string                 `json:"link,omitempty"`  // and the name of its link
	Mode   SourceMode             `json:"mode"`
	Filter []string               `json:"filter,omitempty"`
	Start  SourceStart            `json:"start"`
	Map    map[string]SourceValue `json:"map,omitempty"`
	Batch  int                    `json:"batch"`
	Paused bool                   `json:"paused"`
}

// OfLink reports whether the source takes from a link.
func (c *SourceConfig) OfLink() bool { return c.Link != "" }

// SourceMode says what happens to the messages in the stream.
type SourceMode string

const (
	SourceCopies SourceMode = "copy" // they stay there
	SourceTakes  SourceMode = "take" // they are acknowledged
)

// SourceStart says with which message a source begins: first, new, a sequence or a time.
type SourceStart struct {
	Word string     // "first" or "new", or
	Seq  uint64     // one of these
	Time *time.Time //
}

// The words of a SourceStart.
const (
	StartFirst = "first"
	StartNew   = "new"
)

func (s SourceStart) equal(other SourceStart) bool {
	same := s.Word == other.Word && s.Seq == other.Seq && (s.Time == nil) == (other.Time == nil)
	return same && (s.Time == nil || s.Time.Equal(*other.Time))
}

// MarshalJSON implements json.Marshaler.
func (s SourceStart) MarshalJSON() ([]byte, error) {
	switch {
	case s.Time != nil:
		return json.Marshal(map[string]time.Time{"time": *s.Time})
	case s.Seq > 0:
		return json.Marshal(map[string]uint64{"seq": s.Seq})
	}
	return json.Marshal(s.Word)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SourceStart) UnmarshalJSON(b []byte) error {
	expected := jsonfields.Errorf(`start is %s: expected "first", "new", {"seq":<n>} with n from 1, or {"time":"<RFC 3339>"}`, b)
	*s = SourceStart{}
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

// SourceValue is where a value of an item comes from: it is the same for all, that of a header of the message, or a
// token of its subject.
type SourceValue struct {
	Constant string
	Header   string
	Token    int // from 1
	Default  string
}

// MarshalJSON implements json.Marshaler.
func (v SourceValue) MarshalJSON() ([]byte, error) {
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
func (v *SourceValue) UnmarshalJSON(b []byte) error {
	*v = SourceValue{}
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

// SourceFields are the values of items that a source maps.
var SourceFields = []string{"priority", "key", "weight", "delay", "not_before", "ttl", "unique", "on_conflict"}

// The bounds of sources.
const (
	MaxSourceName    = 64
	MaxSources       = 100  // of a queue
	MaxStoreSources  = 1000 // of a store
	MaxSourceBatch   = 1000
	MaxSourceFilters = 16
	MaxSourcesPage   = 100

	maxSourceText = 255 // of a remote, a stream, a filter, or a value
	maxSourceMap  = 4 << 10
)

var (
	// ErrNoSource: the queue has no source of this name.
	ErrNoSource = errors.New("no such source")
	// ErrSources: there are as many sources as there may be.
	ErrSources = errors.New("too many sources")
	// ErrSourceMoved: the source is elsewhere than the caller has found it. Nothing was done.
	ErrSourceMoved = errors.New("the source has moved")
)

var sourceFields = []string{"remote", "stream", "queue", "link", "mode", "filter", "start", "map", "batch", "paused"}

func defaultSource() SourceConfig {
	return SourceConfig{Mode: SourceCopies, Start: SourceStart{Word: StartFirst}, Batch: 512}
}

// SourceError says what is wrong with a source.
type SourceError struct{ Text string }

func (e *SourceError) Error() string { return "source: " + e.Text }

// sourceError has an error about the fields of an object say that they are of a source.
func sourceError(err error) error {
	if err == nil {
		return nil
	}
	return &SourceError{err.Error()}
}

// Merge returns the definition with the fields of the JSON object replaced.
func (c SourceConfig) Merge(object []byte) (SourceConfig, error) {
	if err := jsonfields.Check(object, sourceFields, false); err != nil {
		return c, sourceError(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return c, sourceError(err)
	}
	if fields["map"] != nil {
		c.Map = nil // it is replaced as a whole
		if err := checkMapped(fields["map"]); err != nil {
			return c, sourceError(err)
		}
	}
	if fields["filter"] != nil {
		c.Filter = nil
	}
	if fields["link"] != nil && !c.OfLink() {
		c.Batch = MaxSourceBatch // each batch costs a round trip
	}
	if err := jsonfields.Decode(object, &c); err != nil {
		return c, sourceError(err)
	}
	return c, sourceError(c.check())
}

// checkMapped refuses values that no item has before any of them is read: there are few others.
func checkMapped(object []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil // it is no object, as decode says
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(SourceFields, field) {
			return jsonfields.Errorf("map has %.100q: expected some of %s", field, strings.Join(SourceFields, ", "))
		}
	}
	return nil
}

func (c *SourceConfig) check() error {
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
		case len(text.value) > maxSourceText || strings.ContainsAny(text.value, " \t\r\n.*>/\\\x00"):
			return jsonfields.Errorf("%s is %.100q: expected a name without spaces, dots, slashes, * and >", text.field, text.value)
		}
	}
	switch {
	case c.Mode != SourceCopies && c.Mode != SourceTakes:
		return jsonfields.Errorf("mode is %q: expected copy or take", c.Mode)
	case c.Mode == SourceTakes && c.Start.Word != StartFirst:
		return jsonfields.Errorf("start with the mode take: expected first, as the server has what nobody has acknowledged")
	case c.Batch < 1 || c.Batch > MaxSourceBatch:
		return jsonfields.Errorf("batch is %d: allowed are 1 to %d", c.Batch, MaxSourceBatch)
	case len(c.Filter) > MaxSourceFilters:
		return jsonfields.Errorf("filter has %d subjects: allowed are %d", len(c.Filter), MaxSourceFilters)
	}
	for i, subject := range c.Filter {
		if subject == "" || len(subject) > maxSourceText || strings.ContainsAny(subject, " \t\r\n\x00") || slices.Contains(strings.Split(subject, "."), "") {
			return jsonfields.Errorf("filter has %.100q: expected subjects", subject)
		}
		for _, other := range c.Filter[:i] {
			if subjectsOverlap(other, subject) {
				return jsonfields.Errorf("filter has %.100q and %.100q: expected subjects that do not overlap", other, subject)
			}
		}
	}
	size := 0
	for field, value := range c.Map {
		size += len(field) + len(value.Constant) + len(value.Header) + len(value.Default)
	}
	if size > maxSourceMap {
		return jsonfields.Errorf("map has %d bytes: allowed are %d", size, maxSourceMap)
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

// checkLink checks what a source of a link has instead of a stream.
func (c *SourceConfig) checkLink() error {
	tokens := strings.Split(c.Queue, ".")
	switch {
	case c.Stream != "" || c.Mode != SourceCopies || c.Start.Word != StartFirst || len(c.Filter)+len(c.Map) > 0:
		return jsonfields.Errorf("a source of a link has remote, queue, link, batch and paused: it takes the items as they are")
	case len(tokens) < 2 || slices.Contains(tokens, "") || len(c.Queue) > maxSourceText || strings.ContainsAny(c.Queue, " \t\r\n*>/\\\x00"):
		return jsonfields.Errorf("queue is %.100q: expected the prefix of the other side and its queue, such as edge7.orders", c.Queue)
	}
	if text := wrongName(c.Link); text != "" {
		return jsonfields.Errorf("link: %s", text)
	}
	return nil
}

// CheckSourceName returns an error when a source may not have the name.
func CheckSourceName(name string) error {
	if text := wrongName(name); text != "" {
		return &SourceError{text}
	}
	return nil
}

// wrongName says why neither a source nor a link may have a name, "": one may.
func wrongName(name string) string {
	if name == "" || len(name) > MaxSourceName || strings.ContainsFunc(name, notOfName) {
		return fmt.Sprintf("name %.100q: expected 1 to %d of A-Z a-z 0-9 - _", name, MaxSourceName)
	}
	return ""
}

func notOfName(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
}

// Source is a source as it stands.
type Source struct {
	Queue, Name string
	Born        int64 // of the queue that it feeds: a later queue of the same name has another one
	Config      SourceConfig
	Position    SourcePosition
	Run         SourceRun
	State       SourceState
}

// sourcer changes sources of a queue.
type sourcer struct{ Queue }

// SetSource changes the fields of a source that the JSON object names. It makes the source and the queue if need
// be. allowed says why the source may not be as it would be, nil: it may.
func (q Queue) SetSource(tx kv.Tx, name string, object []byte, allowed func(SourceConfig) error) (Source, error) {
	if err := CheckSourceName(name); err != nil {
		return Source{}, err
	}
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err == nil {
		err = qtx.keepBirth()
	}
	if err != nil {
		return Source{}, err
	}
	h := sourceHome{q.name, qtx.state.born}
	before, err := h.read(tx, name)
	if err != nil {
		return Source{}, err
	}
	after := Source{Queue: q.name, Name: name, Born: h.born, Config: defaultSource(), Position: SourcePosition{}}
	if before != nil {
		after = *before
	} else if err := roomForOne(tx, layout.SpaceSource, q.name, h.prefix(layout.SpaceSource), MaxSources, MaxStoreSources, ErrSources); err != nil {
		return Source{}, err
	}
	if after.Config, err = after.Config.Merge(object); err != nil {
		return Source{}, err
	}
	if before != nil && (after.Config.Remote != before.Config.Remote || after.Config.Stream != before.Config.Stream || after.Config.Mode != before.Config.Mode ||
		after.Config.Queue != before.Config.Queue || after.Config.Link != before.Config.Link) {
		return Source{}, &SourceError{"remote, stream, queue, link and mode cannot be changed: delete the source, and make another one"}
	}
	if err := allowed(after.Config); err != nil {
		return Source{}, err
	}
	if before == nil && after.Config.OfLink() {
		if err := (sources{q.store}).takesAlone(tx.Snapshot(), &after.Config); err != nil {
			return Source{}, err
		}
		after.Position.Batch = rand.Text() // of no batch: the giver knows this source by it until it has given one
	}
	if before != nil && before.Position.Created == 0 && !after.Config.Start.equal(before.Config.Start) {
		after.Position.to(0)
		after.Position.From = ""
	}
	return after, sourcer{q}.write(tx, &after)
}

// PauseSource stops a source. The methods of one source return ErrNoSource if there is none.
func (q Queue) PauseSource(tx kv.Tx, name string) (Source, error) {
	return sourcer{q}.change(tx, name, func(s *Source) error {
		s.Config.Paused = true
		return nil
	})
}

// SourceResume says with which message a source goes on. At most one field is set.
type SourceResume struct {
	FromSeq  uint64
	FromTime *time.Time
	Skip     bool // pass over the poisoned message
	Accept   bool // take the stream as it is
}

// ResumeSource ends the pause of a source, and its stop if from says how to go on.
func (q Queue) ResumeSource(tx kv.Tx, name string, from SourceResume) (Source, error) {
	return sourcer{q}.change(tx, name, func(s *Source) error {
		p := &s.Position
		stop := p.Stop
		takes := s.Config.Mode == SourceTakes
		switch {
		case s.Config.OfLink() && (from.FromSeq > 0 || from.FromTime != nil):
			return &SourceError{"it is of a link: what was taken is not in the other queue; expected skip, accept or nothing"}
		case takes && (from.FromSeq > 0 || from.FromTime != nil):
			return &SourceError{"the mode is take: what was acknowledged is not in the stream; expected skip, accept or nothing"}
		case from.FromSeq > 0:
			p.to(from.FromSeq - 1)
			p.From = ""
			if p.Created == 0 {
				p.From = fromSeq
			}
		case from.FromTime != nil:
			p.to(0)
			p.Created, p.From = 0, from.FromTime.UTC().Format(time.RFC3339Nano)
		case from.Skip && stop.Reason != StopPoisoned:
			return &SourceError{"there is no poisoned message to skip"}
		case from.Skip:
			p.skip()
		case from.Accept:
			p.accept(s.Config.Mode)
		case stop.Reason != "":
			return &SourceError{"it has stopped, " + string(stop.Reason) + ": expected from_seq, from_time, skip or accept"}
		}
		s.Config.Paused, p.Stop, p.Blocked = false, SourceStop{}, 0
		return nil
	})
}

func (q sourcer) change(tx kv.Tx, name string, change func(*Source) error) (Source, error) {
	s, err := q.Source(tx, name)
	if err != nil {
		return Source{}, err
	}
	if err := change(&s); err != nil {
		return Source{}, err
	}
	return s, q.write(tx, &s)
}

// DeleteSource removes a source.
func (q Queue) DeleteSource(tx kv.Tx, name string) error {
	s, err := q.Source(tx, name)
	if err != nil {
		return err
	}
	h := sourceHome{q.name, s.Born}
	for _, space := range []string{layout.SpaceSource, layout.SpacePosition, layout.SpaceSourceRunner} {
		tx.Clear(h.key(space, name))
	}
	return nil
}

// Source returns a source.
func (q Queue) Source(r kv.Reader, name string) (Source, error) {
	if err := CheckSourceName(name); err != nil {
		return Source{}, err
	}
	s, err := q.readState(r)
	if err != nil {
		return Source{}, err
	}
	if s == nil {
		return Source{}, ErrNoQueue
	}
	found, err := sourceHome{q.name, s.born}.read(r, name)
	if err != nil {
		return Source{}, err
	}
	if found == nil {
		return Source{}, ErrNoSource
	}
	return *found, sources{q.store}.state(r, found)
}

// Sources returns a page of sources behind a name.
func (q Queue) Sources(r kv.Reader, after string, limit int) ([]Source, error) {
	s, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoQueue
	}
	h := sourceHome{q.name, s.born}
	begin, end := tuple.Range(h.prefix(layout.SpaceSource))
	if after != "" {
		begin = append(h.key(layout.SpaceSource, after), 0)
	}
	return sources{q.store}.between(r, begin, end, limit)
}

// AllSources returns the sources of all queues.
func (s *Store) AllSources(r kv.Reader) ([]Source, error) {
	begin, end := tuple.Range(layout.Row(layout.SpaceSource))
	return sources{s}.between(r, begin, end, MaxStoreSources)
}

// sources is what a store knows of the sources of its queues.
type sources struct{ *Store }

// between are the sources whose rows lie in a range.
func (s sources) between(r kv.Reader, begin, end []byte, limit int) ([]Source, error) {
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	var found []Source
	for _, pair := range rows {
		k := tuple.Read(pair.Key[len(layout.Row(layout.SpaceSource)):])
		h := sourceHome{k.Text(), k.Int()}
		k.Text() // the kind
		name := k.Text()
		if k.Err() != nil {
			return nil, fmt.Errorf("damaged source: %w", k.Err())
		}
		one, err := h.read(r, name)
		if err != nil {
			return nil, err
		}
		if one == nil {
			continue
		}
		if err := s.state(r, one); err != nil {
			return nil, err
		}
		found = append(found, *one)
	}
	return found, nil
}

// takesAlone refuses a second source of a link: both would say that they have what one of them has.
func (s sources) takesAlone(r kv.Reader, c *SourceConfig) error {
	all, err := s.AllSources(r)
	if err != nil {
		return err
	}
	for i := range all {
		if other := &all[i].Config; other.OfLink() && other.Remote == c.Remote && other.Queue == c.Queue && other.Link == c.Link {
			return &SourceError{"another source takes from this link already"}
		}
	}
	return nil
}

// roomForOne refuses one row too many of a space, which may have some for each queue, and some for the store. No tenant may take so many
// that others find none left.
func roomForOne(tx kv.Tx, space, queue string, ofQueue []byte, inQueue, inStore int, tooMany error) error {
	type bound struct {
		prefix []byte
		most   int
		of     string
	}
	bounds := []bound{{ofQueue, inQueue, "queue"}, {layout.Row(space), inStore, "store"}}
	if tenant := tenantOf(queue); tenant != "" {
		all := layout.QueueRow(space, tenant+".")
		bounds = append(bounds, bound{all[:len(all)-1], inStore / tenantPart, "tenant"})
	}
	for _, bound := range bounds {
		begin, end := tuple.Range(bound.prefix)
		rows, err := tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: bound.most})
		if err != nil {
			return err
		}
		if len(rows) == bound.most {
			return fmt.Errorf("%w: the %s has %d, which is all it may have", tooMany, bound.of, bound.most)
		}
	}
	return nil
}

// tenantPart is the part of the store's sources, and of its links, that a tenant may have: one of so many.
const tenantPart = 10

// write writes a source that was changed. What was fetched before finds another position.
func (q sourcer) write(tx kv.Tx, s *Source) error {
	s.Position.Revision++
	text, err := json.Marshal(s.Config)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	h := sourceHome{q.name, s.Born}
	tx.Set(h.key(layout.SpaceSource, s.Name), tuple.AppendBytes(tuple.AppendInt(nil, sourceVersion), text))
	tx.Set(h.key(layout.SpacePosition, s.Name), s.Position.pack())
	now, err := q.store.inside.Clock.At(tx.Snapshot())
	if err != nil {
		return err
	}
	if !s.Config.Paused && s.Run.Until <= now { // from now on a bridge may see that nobody runs it
		s.Run.vacate(now)
		tx.Set(h.key(layout.SpaceSourceRunner, s.Name), s.Run.pack())
	}
	s.State = s.state(now)
	return nil
}

// sourceHome is where the rows of a queue's sources are. A purge leaves them there; they go with the queue.
type sourceHome struct {
	queue string
	born  int64
}

const (
	sourceVersion = 1
	kindSource    = "source"
)

func (h sourceHome) prefix(space string) []byte {
	return tuple.AppendString(layout.GenerationPrefix(space, h.queue, h.born), kindSource)
}

func (h sourceHome) key(space, name string) []byte { return tuple.AppendString(h.prefix(space), name) }

// read returns a source, nil if there is none.
func (h sourceHome) read(r kv.Reader, name string) (*Source, error) {
	rows, err := r.GetAll([][]byte{h.key(layout.SpaceSource, name), h.key(layout.SpacePosition, name), h.key(layout.SpaceSourceRunner, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	s := &Source{Queue: h.queue, Name: name, Born: h.born}
	if s.Config, err = parseSource(rows[0]); err == nil {
		err = s.Position.parse(rows[1])
	}
	if err == nil && rows[2] != nil {
		err = s.Run.parse(rows[2])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged source %q: %w", name, err)
	}
	return s, nil
}

func parseSource(b []byte) (c SourceConfig, err error) {
	r := tuple.Read(b)
	version, text := r.Int(), r.Bytes()
	if err := cmp.Or(r.Err(), sourceVersionIs(version)); err != nil {
		return c, err
	}
	return c, json.NewDecoder(bytes.NewReader(text)).Decode(&c)
}

func sourceVersionIs(version int64) error {
	if version != sourceVersion {
		return fmt.Errorf("source has version %d: this program reads %d", version, sourceVersion)
	}
	return nil
}
