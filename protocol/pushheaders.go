package protocol

import (
	"strings"
	"time"
)

// PushHeader is a header by which a push says something about its item.
type PushHeader struct {
	Name   string   // of the header
	Word   string   // the name of the value as a parameter, a field or an option; each language spells it as it spells names
	Type   any      // a value of its type: int64, string, [Duration] or [time.Time]
	Words  []string // the texts that it may be; nil: others, too
	Most   int64    // the greatest integer, from 1, or the most bytes of a text; 0: no bound, or one that the value itself has
	Mapped bool     // the map of a source may have it
	Shown  string   // the header that an item has of it, in answers and in imports; "": it does not stay with the item
	Doc    string   // a part of a sentence, for the description of HTTP

	With   string // the header that it says more about, and without which it has no meaning; "": none
	Always bool   // of Shown: each answer with the item has it, and not only those that show an item by its id, or in a list
	Given  bool   // a link gives it along: it gives what is ready, and the claim to a unique value stays with the giver
	Rule   bool   // it has a rule besides its type and bounds: package codec of the bridge has a function that reads it
	Own    bool   // its value is not that of one field of the item: package codec reads it by hand
}

// Field is the name in Go of what the header says.
func (h *PushHeader) Field() string {
	var name strings.Builder
	for word := range strings.SplitSeq(h.Word, "_") {
		switch word {
		case "id", "ttl":
			name.WriteString(strings.ToUpper(word))
		default:
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String()
}

// Stays reports whether the item keeps the value as it was pushed, and shows it under the same name.
func (h *PushHeader) Stays() bool { return h.Shown == h.Name && !h.Own }

// PushHeaders are the headers of a push, in the order of the documentation. A bundle has HeaderBundle and HeaderEach besides, which are about
// the message. The readers and writers of the bridge, of the Go client and of the HTTP interface follow from this table and from
// [ItemHeaders], and so do the maps of sources. Tests hold the other clients, pq and the documentation against it.
var PushHeaders = []PushHeader{
	{Name: HeaderPriority, Word: "priority", Type: int64(0), Mapped: true, Shown: HeaderPriority, Always: true, Given: true, Own: true, Doc: "low numbers are urgent"},
	{Name: HeaderKey, Word: "key", Type: "", Most: 128, Mapped: true, Shown: HeaderKey, Always: true, Given: true, Rule: true, Doc: "whose item it is; 1 to 128 bytes"},
	{Name: HeaderWeight, Word: "weight", Type: int64(0), Most: 1000, Mapped: true, With: HeaderKey, Doc: "the share of the key where keys take turns"},
	{Name: HeaderDelay, Word: "delay", Type: Duration(0), Mapped: true, Shown: HeaderNotBefore, Own: true, Doc: "not ready before this time has passed"},
	{Name: HeaderNotBefore, Word: "not_before", Type: time.Time{}, Mapped: true, Shown: HeaderNotBefore, Own: true, Doc: "not ready before this time"},
	{Name: HeaderTTL, Word: "ttl", Type: Duration(0), Mapped: true, Shown: HeaderExpires, Given: true, Doc: "expires after this time"},
	{Name: HeaderMsgID, Word: "msg_id", Type: "", Most: 1024, Own: true, Doc: "repeat the request with the same id when its answer was lost: it is done once"},
	{Name: HeaderUnique, Word: "unique", Type: "", Most: 1024, Mapped: true, Shown: HeaderUnique, Rule: true, Doc: "a value that one item of the queue has at a time"},
	{Name: HeaderUniqueUntil, Word: "unique_until", Type: "", Words: []string{UntilLeased}, Shown: HeaderUniqueUntil, With: HeaderUnique, Doc: "the item has its unique value until it is leased first"},
	{Name: HeaderOnConflict, Word: "on_conflict", Type: "", Words: []string{"keep", "replace", "raise"}, Mapped: true, With: HeaderUnique, Doc: "what becomes of the item that has the unique value"},
	{Name: HeaderResultTTL, Word: "result_ttl", Type: Duration(0), Shown: HeaderResultTTL, Rule: true, Doc: "for how long the queue keeps what becomes of the item; up to 168h"},
	{Name: HeaderCost, Word: "cost", Type: int64(0), Most: MaxCost, Mapped: true, Shown: HeaderCost, Given: true, Doc: "what a delivery costs where a rate bounds cost; without it 1"},
	{Name: HeaderSettle, Word: "settle", Type: "", Own: true, Doc: "the ack of a leased item that the push acknowledges"},
}

// ItemHeader is a header by which an answer says something about its item.
type ItemHeader struct {
	Name   string
	Field  string // of an [Item] in Go, or of a part of it; "": it is about the message alone
	Back   string // the field of an import that takes the value back; "": an import ignores it
	Type   any    // a value of its type: int64, string, bool, [Duration] or [time.Time]
	Needed bool   // it says which item it is, or what its lease is: without it nobody can settle the item
}

// KeptHeader is the Back of headers that stay among the headers of an item.
const KeptHeader = "Headers"

// ItemHeaders are the headers that come with items, those of pushes that items show included.
var ItemHeaders = func() []ItemHeader {
	all := []ItemHeader{
		{Name: HeaderID, Field: "ID", Back: "ID", Type: "", Needed: true},
		{Name: HeaderTimeStamp, Field: "Pushed", Back: "Pushed", Type: time.Time{}},
		{Name: HeaderDeliveries, Field: "Deliveries", Back: "Deliveries", Type: int64(0), Needed: true},
		{Name: HeaderFailures, Field: "Failures", Back: "Failures", Type: int64(0)},
		{Name: HeaderInterruptions, Field: "Interruptions", Back: "Interruptions", Type: int64(0)},
		{Name: HeaderReturns, Field: "Returns", Back: "Returns", Type: int64(0)},
		{Name: HeaderNumPending, Type: int64(0)},

		{Name: HeaderAck, Field: "Ack", Type: ""},
		{Name: HeaderLeaseExpires, Field: "LeaseExpires", Type: time.Time{}, Needed: true},
		{Name: HeaderConfirm, Type: time.Time{}},
		{Name: HeaderFence, Field: "Fence", Back: "Fence", Type: int64(0), Needed: true},
		{Name: HeaderKeyFence, Field: "KeyFence", Back: "KeyFence", Type: int64(0), Needed: true},
		{Name: HeaderBackoff, Field: "Backoff", Type: Duration(0)},
		{Name: HeaderProgress, Field: "Progress", Back: "Progress", Type: ""},
		{Name: HeaderProgressAt, Field: "ProgressAt", Back: "ProgressAt", Type: time.Time{}},

		{Name: HeaderState, Field: "State", Type: ""},
		{Name: HeaderNotBefore, Field: "Due", Back: "NotBefore", Type: time.Time{}},
		{Name: HeaderExpires, Field: "Expires", Back: "Expires", Type: time.Time{}},
		{Name: HeaderHeld, Type: false},
		{Name: HeaderWaitsFor, Field: "WaitsFor", Type: ""},
		{Name: HeaderKeyAhead, Field: "KeyAhead", Type: int64(0)},
		{Name: HeaderExplain, Field: "Explain", Type: Explain{}},
		{Name: HeaderHolder, Field: "Holder", Type: ""},
		{Name: HeaderAttempts, Field: "LastAttempts", Back: "Attempts", Type: []Attempt(nil)},

		{Name: HeaderSchedule, Field: "Schedule", Back: KeptHeader, Type: ""},
		{Name: HeaderScheduledAt, Field: "ScheduledAt", Back: KeptHeader, Type: time.Time{}},
		{Name: HeaderSource, Field: "Source.Name", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceSubject, Field: "Source.Subject", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceSeq, Field: "Source.Seq", Back: KeptHeader, Type: int64(0)},
		{Name: HeaderSourceTime, Field: "Source.Time", Back: KeptHeader, Type: time.Time{}},
		{Name: HeaderSourceMsgID, Field: "Source.MsgID", Back: KeptHeader, Type: ""},
		{Name: HeaderSourceID, Field: "Source.ID", Back: KeptHeader, Type: ""},

		{Name: HeaderDeadReason, Field: "Dead.Reason", Back: "Dead.Reason", Type: ""},
		{Name: HeaderDeadAt, Field: "Dead.At", Back: "Dead.At", Type: time.Time{}},
		{Name: HeaderDeadNumber, Field: "Dead.Deliveries", Back: "Dead.Deliveries", Type: int64(0)},
		{Name: HeaderDeadInterruptions, Field: "Dead.Interruptions", Back: "Dead.Interruptions", Type: int64(0)},
		{Name: HeaderOrigin, Field: "Dead.Origin", Back: "Dead.Origin", Type: ""},
		{Name: HeaderOriginID, Field: "Dead.OriginID", Back: "Dead.OriginID", Type: ""},
	}
	for i := range PushHeaders {
		if h := &PushHeaders[i]; h.Shown == h.Name && h.Name != HeaderNotBefore {
			all = append(all, ItemHeader{Name: h.Name, Field: h.Field(), Back: h.Field(), Type: h.Type, Needed: h.Name == HeaderPriority})
		}
	}
	return all
}()
