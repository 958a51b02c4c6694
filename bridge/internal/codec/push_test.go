package codec

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// needed are the headers without which a header of a push has no meaning.
var needed = map[string]nats.Header{
	protocol.HeaderWeight:      {protocol.HeaderKey: {"k"}},
	protocol.HeaderUniqueUntil: {protocol.HeaderUnique: {"u"}},
	protocol.HeaderOnConflict:  {protocol.HeaderUnique: {"u"}},
}

// A push takes each value that the table of its headers allows, and refuses others.
func TestPushHeadersAreRead(t *testing.T) {
	t.Parallel()
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	push := func(header nats.Header) (fdbpq.NewItem, *failure.Failure) {
		return w.ReadPush(&subjects.Subject{Queue: "jobs", Verb: subjects.Push}, &nats.Msg{Header: header})
	}
	for _, h := range protocol.PushHeaders {
		if h.Name == protocol.HeaderSettle {
			continue // its values are leases of a store, and the tests of package bridge have some
		}
		other := needed[h.Name]
		without, _ := push(other)
		with := func(value string) (fdbpq.NewItem, *failure.Failure) {
			header := maps.Clone(other)
			if header == nil {
				header = make(nats.Header)
			}
			header[h.Name] = []string{value}
			return push(header)
		}
		good, bad := samples(&h)
		for _, value := range good {
			if item, f := with(value); f != nil || reflect.DeepEqual(item, without) {
				t.Errorf("%s of %.40q: %v, and the item has it: %t. Expected readOurs in bridge/internal/codec/push.go to read it, as protocol/pushheaders.go describes it",
					h.Name, value, f, !reflect.DeepEqual(item, without))
			}
		}
		for _, value := range bad {
			if _, f := with(value); f == nil {
				t.Errorf("%s of %.40q is not refused: expected readOurs in bridge/internal/codec/push.go to refuse what protocol/pushheaders.go does not allow", h.Name, value)
			}
		}
	}
}

// samples are values that a header may have, and values that it may not have.
func samples(h *protocol.PushHeader) (good, bad []string) {
	most := strings.Repeat("x", int(h.Most))
	switch h.Type.(type) {
	case int64:
		if h.Most == 0 {
			return []string{"-7", "7"}, []string{"", "seven", "1.5"}
		}
		return []string{"1", strconv.FormatInt(h.Most, 10)}, []string{"", "0", strconv.FormatInt(h.Most+1, 10)}
	case protocol.Duration:
		return []string{"7s"}, []string{"", "7", "soon"}
	case time.Time:
		return []string{"2001-02-03T04:05:06Z"}, []string{"", "2001-02-03"}
	}
	if h.Words != nil {
		return h.Words, []string{"", "another word"}
	}
	return []string{"x", most}, []string{"", most + "x"}
}

// A push passes over the headers of an item that the client has got: it is forwarded as it is. An import takes what they say.
func TestShownHeadersComeBack(t *testing.T) {
	t.Parallel()
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range protocol.PushHeaders {
		if h.Shown == "" {
			continue
		}
		value := "x"
		switch h.Shown {
		case protocol.HeaderPriority:
			value = "7"
		case protocol.HeaderNotBefore, protocol.HeaderExpires:
			value = "2001-02-03T04:05:06Z"
		case protocol.HeaderUniqueUntil:
			value = protocol.UntilLeased
		}
		forwarded := itemHeaders{Wire: w, subject: &subjects.Subject{Queue: "jobs"}, item: new(fdbpq.NewItem)}
		if f := forwarded.readOurs(h.Shown, []string{value}); f != nil {
			t.Errorf("a push with the header %s of an item is refused: %s. Expected it among the headers of answers in readOurs of bridge/internal/codec/push.go", h.Shown, f.Text)
		}
		var back fdbpq.Import
		if f := readImportHeader(&back, h.Shown, value); f != nil || reflect.DeepEqual(back, fdbpq.Import{}) {
			t.Errorf("an import with the header %s of an item: %v, item %+v. Expected readImportHeader in bridge/internal/codec/import.go to read it", h.Shown, f, back)
		}
	}
}

// The map of a source has the fields that the table of the headers names.
func TestMappedHeaders(t *testing.T) {
	t.Parallel()
	var mapped []string
	for _, h := range protocol.PushHeaders {
		if h.Mapped {
			mapped = append(mapped, h.Word)
		}
	}
	if !slices.Equal(mapped, source.Fields) {
		t.Errorf("the map of a source has the fields %v in package source, and %v in protocol/pushheaders.go: expected the same in the same order", source.Fields, mapped)
	}
}
