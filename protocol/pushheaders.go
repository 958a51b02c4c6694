package protocol

import "time"

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
}

// PushHeaders are the headers of a push, in the order of the documentation. A bundle has HeaderBundle and HeaderEach besides, which are about
// the message. The HTTP interface and the maps of sources follow from this table. TestPushHeaders holds the clients, pq, imports and
// the documentation against it.
var PushHeaders = []PushHeader{
	{Name: HeaderPriority, Word: "priority", Type: int64(0), Mapped: true, Shown: HeaderPriority, Doc: "low numbers are urgent"},
	{Name: HeaderKey, Word: "key", Type: "", Most: 128, Mapped: true, Shown: HeaderKey, Doc: "whose item it is; 1 to 128 bytes"},
	{Name: HeaderWeight, Word: "weight", Type: int64(0), Most: 1000, Mapped: true, Doc: "the share of the key where keys take turns"},
	{Name: HeaderDelay, Word: "delay", Type: Duration(0), Mapped: true, Shown: HeaderNotBefore, Doc: "not ready before this time has passed"},
	{Name: HeaderNotBefore, Word: "not_before", Type: time.Time{}, Mapped: true, Shown: HeaderNotBefore, Doc: "not ready before this time"},
	{Name: HeaderTTL, Word: "ttl", Type: Duration(0), Mapped: true, Shown: HeaderExpires, Doc: "expires after this time"},
	{Name: HeaderMsgID, Word: "msg_id", Type: "", Most: 1024, Doc: "repeat the request with the same id when its answer was lost: it is done once"},
	{Name: HeaderUnique, Word: "unique", Type: "", Most: 1024, Mapped: true, Shown: HeaderUnique, Doc: "a value that one item of the queue has at a time"},
	{Name: HeaderUniqueUntil, Word: "unique_until", Type: "", Words: []string{UntilLeased}, Shown: HeaderUniqueUntil, Doc: "the item has its unique value until it is leased first"},
	{Name: HeaderOnConflict, Word: "on_conflict", Type: "", Words: []string{"keep", "replace", "raise"}, Mapped: true, Doc: "what becomes of the item that has the unique value"},
	{Name: HeaderSettle, Word: "settle", Type: "", Doc: "the ack of a leased item that the push acknowledges"},
}
