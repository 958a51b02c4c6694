// Package edits has the requests that change items, queues and definitions from outside the flow of items: an item is
// removed, moved, requeued or its lease revoked, alone or many of them in bulk; a queue is configured, purged, paused or
// deleted; keys, schedules, sources and links are defined.
//
// What it guarantees: an edit is made as a whole, in one transaction, before it is answered; a bulk operation is made page by
// page, and its answer says how far it went. An edit that needs room is refused where there is none. A missing queue, item or
// definition is an answer, and changes nothing.
//
// An edit is a [desk.Change] that embeds change, which answers in JSON. To add an edit, add its file, and its row to the
// bridge's table of verbs.
package edits
