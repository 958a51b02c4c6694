package client

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// elsewhere are the fields that an item of the client has in another way: a method, a handle, or in lists alone.
var elsewhere = map[string]bool{"Ack": true, "LeaseExpires": true, "Expires": true}

// identifying are the headers without which nobody knows which item it is, or can settle it.
var identifying = []string{"PQ-Id", "PQ-Priority", "PQ-Deliveries", "PQ-Fence", "PQ-Key-Fence", "PQ-Lease-Expires"}

// An item has what each header says, and an import says it again. A header that cannot be read costs the item only if nobody could settle
// the item without it.
func TestItemHeaders(t *testing.T) {
	t.Parallel()
	grammar, err := subjects.New(DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	q := &Queue{name: "jobs", client: &Client{grammar: grammar}}
	for _, h := range protocol.ItemHeaders {
		for _, wrong := range [][]string{{"7s", "7s"}, nil} {
			_, err := readItem(q, &nats.Msg{Header: nats.Header{h.Name: wrong}})
			if h.Name != protocol.HeaderAck && (err != nil) != slices.Contains(identifying, h.Name) {
				t.Errorf("%s of %q: %v", h.Name, wrong, err)
			}
		}
		if h.Field == "" || elsewhere[h.Field] {
			continue
		}
		value, want := "x", "x"
		switch h.Type.(type) {
		case int64:
			value, want = "7", "7"
		case protocol.Duration:
			value, want = "7s", "7s"
		case time.Time:
			value, want = "2001-02-03T04:05:06Z", "2001-02-03 04:05:06 +0000 UTC"
		case []protocol.Attempt:
			value, want = `[{"n":7,"end":"2001-02-03T04:05:06Z","outcome":"failed"}]`, "[{7 0001-01-01 00:00:00 +0000 UTC 2001-02-03 04:05:06 +0000 UTC  failed }]"
		case protocol.Explain:
			value, want = `{"cause":"paused","text":"it is"}`, "paused"
		}
		read, err := readItem(q, &nats.Msg{Header: nats.Header{h.Name: {value}}})
		if err != nil {
			t.Errorf("%s: %v", h.Name, err)
			continue
		}
		if got := fmt.Sprint(part(reflect.ValueOf(read), h.Field)); got != want && !strings.Contains(got, "{"+want) {
			t.Errorf("%s of %s: the item has %s of %q", h.Name, value, h.Field, got)
		}
		if h.Back == "" || h.Back == protocol.KeptHeader || h.Name == protocol.HeaderAttempts {
			continue
		}
		back := &Import{Dead: &Death{}}
		to := part(reflect.ValueOf(back), h.Back)
		switch from := part(reflect.ValueOf(read), h.Field); {
		case !to.IsValid():
			t.Errorf("an import has no field %s for %s", h.Back, h.Name)
			continue
		default:
			to.Set(from.Convert(to.Type()))
		}
		header := make(nats.Header)
		setHeaders(header, back)
		if got := header[h.Name]; len(got) != 1 || got[0] != value {
			t.Errorf("an import with %s of %s has the header %s of %q", h.Back, value, h.Name, got)
		}
	}
}

// A refusal about another item holds for an earlier attempt without an answer, too; another conflict does not, nor does a refusal for want of room.
func TestRefusalsInDoubt(t *testing.T) {
	t.Parallel()
	for _, r := range protocol.Refusals {
		refused := &Error{Op: "push", Code: r.Code, Reason: r.Reason}
		var e *Error
		if !errors.As(inDoubt(refused, true), &e) {
			t.Fatal("no error")
		}
		if doubts := e.Code == protocol.CodeUnknownResult; doubts != (!r.AboutAnother && (r.Code == protocol.CodeConflict || r.Code == protocol.CodeBusy)) {
			t.Errorf("%d %s behind an open attempt is %d", r.Code, r.Reason, e.Code)
		}
		if inDoubt(refused, false) != refused {
			t.Errorf("%d %s without an open attempt is another error", r.Code, r.Reason)
		}
	}
}

// part is the field of a struct, or of a part of it.
func part(of reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		of = of.FieldByName(name)
	}
	return of
}

// Each header of a push has an option, which sets it.
func TestPushOptions(t *testing.T) {
	t.Parallel()
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	options := map[string]struct {
		option PushOption
		value  string
	}{
		protocol.HeaderKey:         {Key("x"), "x"},
		protocol.HeaderWeight:      {Weight(7), "7"},
		protocol.HeaderDelay:       {Delay(time.Minute), "1m0s"},
		protocol.HeaderNotBefore:   {NotBefore(at), "2001-02-03T04:05:06Z"},
		protocol.HeaderTTL:         {TTL(time.Hour), "1h0m0s"},
		protocol.HeaderMsgID:       {MsgID("x"), "x"},
		protocol.HeaderUnique:      {Unique("x"), "x"},
		protocol.HeaderUniqueUntil: {UniqueUntilLeased(), "leased"},
		protocol.HeaderOnConflict:  {OnConflict(Raise), "raise"},
		protocol.HeaderResultTTL:   {ResultTTL(time.Hour), "1h0m0s"},
		protocol.HeaderCost:        {Cost(1830), "1830"},
	}
	without := map[string]string{protocol.HeaderPriority: "the subject has it", protocol.HeaderSettle: "the method that hands an item over sends it"}
	for _, h := range protocol.PushHeaders {
		one, is := options[h.Name]
		if why := without[h.Name]; is == (why != "") {
			t.Errorf("%s: expected an option of client/push.go here, or why there is none", h.Name)
		}
		if !is {
			continue
		}
		p := push{header: make(nats.Header)}
		one.option(&p)
		if got := p.header[h.Name]; len(got) != 1 || got[0] != one.value || len(p.header) != 1 {
			t.Errorf("the option for %s sets %v", h.Name, p.header)
		}
	}
}
