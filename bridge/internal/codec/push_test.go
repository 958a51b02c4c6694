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

// against are values that only the rule of a header refuses.
var against = map[string][]string{protocol.HeaderKey: {"a\x01"}, protocol.HeaderUnique: {"\x00x", "a\xff"}, protocol.HeaderResultTTL: {"0s", "-1m", "168h0m0.000000001s"}}

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
	_, f := push(nats.Header{"PQ-Unknown": {"x"}})
	for _, h := range protocol.PushHeaders {
		if h.Name == protocol.HeaderSettle {
			continue // its values are leases of a store, and the tests of package bridge have some
		}
		if f == nil || h.Name != protocol.HeaderMsgID && !strings.Contains(f.Text, h.Name) {
			t.Errorf("the refusal of another header is %v: expected it to name %s", f, h.Name)
		}
		other := make(nats.Header)
		if h.With != "" {
			other[h.With] = []string{"x"}
		}
		without, _ := push(other)
		with := func(value string) (fdbpq.NewItem, *failure.Failure) {
			header := maps.Clone(other)
			header[h.Name] = []string{value}
			return push(header)
		}
		good, bad := samples(&h)
		bad = append(bad, against[h.Name]...)
		for _, value := range good {
			if item, f := with(value); f != nil || reflect.DeepEqual(item, without) {
				t.Errorf("%s of %.40q: %v, and the item has it: %t. Expected it to be read, as protocol/pushheaders.go describes it: by make generate, or, if it is marked Own, by readOurs in bridge/internal/codec/push.go",
					h.Name, value, f, !reflect.DeepEqual(item, without))
			}
		}
		for _, value := range bad {
			if _, f := with(value); f == nil {
				t.Errorf("%s of %.40q is not refused: expected what protocol/pushheaders.go does not allow to be refused", h.Name, value)
			}
		}
	}
}

// The bounds of the table are those of the core.
func TestBoundsOfTheCore(t *testing.T) {
	t.Parallel()
	most := map[string]int64{
		protocol.HeaderKey: fdbpq.MaxKey, protocol.HeaderWeight: fdbpq.MaxWeight, protocol.HeaderMsgID: fdbpq.MaxMsgID, protocol.HeaderUnique: fdbpq.MaxUnique,
		protocol.HeaderCost: fdbpq.MaxCost,
	}
	words := map[string][]string{
		protocol.HeaderUniqueUntil: {protocol.UntilLeased},
		protocol.HeaderOnConflict:  {string(fdbpq.ConflictKeep), string(fdbpq.ConflictReplace), string(fdbpq.ConflictRaise)},
	}
	for _, h := range protocol.PushHeaders {
		if h.Most != most[h.Name] || !slices.Equal(h.Words, words[h.Name]) {
			t.Errorf("%s: the table has up to %d, and the words %q. Expected up to %d, and %q", h.Name, h.Most, h.Words, most[h.Name], words[h.Name])
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

// A push passes over the headers of an item that the client has got: it is forwarded as it is. An import takes what they say, ignores
// what is about the answer, and refuses all others.
func TestItemsComeBack(t *testing.T) {
	t.Parallel()
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range protocol.ItemHeaders {
		value := "x"
		switch h.Type.(type) {
		case int64:
			value = "7"
		case protocol.Duration:
			value = "7s"
		case time.Time:
			value = "2001-02-03T04:05:06Z"
		case []protocol.Attempt:
			value = `[{"n":1,"end":"2001-02-03T04:05:06Z","outcome":"failed"}]`
		}
		switch h.Name {
		case protocol.HeaderID:
			value = fdbpq.ID{}.String()
		case protocol.HeaderUniqueUntil:
			value = protocol.UntilLeased
		}
		if strings.HasPrefix(h.Name, protocol.HeaderPrefix) {
			forwarded := itemHeaders{Wire: w, subject: &subjects.Subject{Queue: "jobs"}, item: new(fdbpq.NewItem)}
			if f := forwarded.readOurs(h.Name, []string{value}); f != nil {
				t.Errorf("a push with the header %s of an item is refused: %s", h.Name, f.Text)
			}
		}
		var back fdbpq.Import
		f := readImportHeader(&back, h.Name, value)
		if h.Name == protocol.HeaderID {
			continue // all bytes of the least one are zero
		}
		if taken := !reflect.DeepEqual(back, fdbpq.Import{}); f != nil || taken != (h.Back != "") {
			t.Errorf("an import with the header %s of an item: %v, item %+v. Expected it to take the header: %t", h.Name, f, back, h.Back != "")
		}
	}
	for _, name := range []string{protocol.HeaderTTL, protocol.HeaderReason, "PQ-Unknown"} {
		if f := readImportHeader(new(fdbpq.Import), name, "1s"); f == nil {
			t.Errorf("an import with the header %s is not refused", name)
		}
	}
}

// What stays with an item is shown as it was pushed, by get and by lists, where it is counted before.
func TestWhatStaysIsShown(t *testing.T) {
	t.Parallel()
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	for _, h := range protocol.PushHeaders {
		if !h.Stays() {
			continue
		}
		good, _ := samples(&h)
		for _, value := range good {
			header := nats.Header{h.Name: {value}}
			if h.With != "" {
				header[h.With] = []string{"x"}
			}
			item, f := w.ReadPush(&subjects.Subject{Queue: "jobs", Verb: subjects.Push}, &nats.Msg{Header: header})
			if f != nil {
				t.Fatalf("%s of %.40q: %s", h.Name, value, f.Text)
			}
			var stored fdbpq.StoredItem
			from, to := reflect.ValueOf(item), reflect.ValueOf(&stored).Elem()
			for i := range from.NumField() {
				if field := to.FieldByName(from.Type().Field(i).Name); field.IsValid() {
					field.Set(from.Field(i))
				}
			}
			var written HeaderWriter
			written.Reset()
			written.Stored(&stored, func(int64) time.Time { return time.Time{} })
			if got := written.Finish()[h.Shown]; !slices.Equal(got, []string{value}) {
				t.Errorf("%s of %.40q is shown as %.40q", h.Name, value, got)
			}
			slices.Sort(written.keys)
			if once := slices.Compact(slices.Clone(written.keys)); len(once) != len(written.keys) {
				t.Errorf("an answer has the headers %v: expected each once", written.keys)
			}
			values, lines := shownOfStored(&stored), 0
			values.each(func(name, value string) { lines += lineOf(name, len(value)) })
			if room := values.room(); room < lines || lines == 0 && !h.Always {
				t.Errorf("%s of %.40q: the values take %d bytes of an answer, and %d are counted", h.Name, value, lines, room)
			}
		}
	}
}

// A bundle has room for what its items say of their results.
func TestBundledItemsThatAsk(t *testing.T) {
	t.Parallel()
	const room = 16 << 10
	w, err := New("pq", []byte("secret"), func() int64 { return room })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	item := fdbpq.Item{Key: "k", Size: 1}
	plain := w.Limit.Bundled("jobs", slices.Repeat([]fdbpq.Item{item}, room))
	item.ResultTTL = fdbpq.MaxResultTTL
	var line HeaderWriter
	line.Asks(&item)
	asking, each := w.Limit.Bundled("jobs", slices.Repeat([]fdbpq.Item{item}, room)), len(line.AppendLines(nil))
	if asking*(w.Limit.bundled("jobs", &fdbpq.Item{Key: "k", Size: 1})+each) > room || asking == plain {
		t.Errorf("a bundle has %d items, and %d whose answers have %d bytes more", plain, asking, each)
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
