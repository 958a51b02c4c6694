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

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// change is a request that changes an item or a queue, and is answered in JSON.
type change struct {
	request.Request
	body []byte // of the answer
}

func (c *change) Answer(re *request.Responder) { re.AnswerBody(&c.Request, c.body) }
func (c *change) SettlesLease() *fdbpq.Lease   { return nil }
func (c *change) MakesRoom(acts bool) bool     { return serves(c.Subject.Verb, acts) }
func (c *change) EndsItems(acts bool) bool     { return servesLast(c.Subject.Verb, acts) }
func (c *change) Keeps() int                   { return 0 }
func (c *change) EndsLease() bool              { return false }
func (c *change) Tally(*request.Tally)         {}

// did sets the answer to a change. A missing queue is an answer, too; any other error
// fails the transaction.
func (c *change) did(answer any, err error) error {
	if err == nil {
		c.body, err = protocol.Marshal(answer)
	}
	return desk.AnswerNoQueue(&c.Request, err)
}

// serves reports whether a request that may change something is served. changes is false for one that only shows what
// there is. A verb that is not named here takes room. Settlements and pops have rules of their own.
//
// A store that takes no new items still writes: leases, moves, changes of definitions. What keeps it busy long enough,
// such as one client that leases and gives back without end, could take all of the room that is kept for settlements. So
// the last part of it is for requests that make room, or take none.
//
// On a disk that is full nearly to the last byte even these are too many: there may be millions of leases to settle, and each takes
// some bytes until the engine merges its files. What is left then is for requests that end items, or what brings them.
func serves(v subjects.Verb, changes bool) bool {
	switch v {
	case subjects.Cancel, subjects.Remove, subjects.AdminRemove, subjects.AdminPurge, subjects.AdminDelete, subjects.AdminPause, subjects.AdminResume,
		subjects.AdminScheduleDelete, subjects.AdminSchedulePause, subjects.AdminSourceDelete, subjects.AdminSourcePause,
		subjects.AdminLinkDelete, subjects.AdminLinkPause:
		return true
	case subjects.AdminConfig, subjects.AdminKey, subjects.AdminSchedule, subjects.AdminSource, subjects.AdminLink:
		return !changes
	}
	return false
}

// servesLast reports the same of a store on a disk that is full nearly to the last byte.
func servesLast(v subjects.Verb, changes bool) bool {
	switch v {
	case subjects.Cancel, subjects.Remove, subjects.AdminRemove, subjects.AdminPurge, subjects.AdminDelete,
		subjects.AdminScheduleDelete, subjects.AdminSourceDelete, subjects.AdminLinkDelete:
		return true
	}
	return !changes && serves(v, changes)
}
