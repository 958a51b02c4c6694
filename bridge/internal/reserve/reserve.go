// Package reserve lists the requests that a store serves from the last of its room.
//
// A store that takes no new items still writes: leases, moves, changes of definitions. What keeps it busy long enough,
// such as one client that leases and gives back without end, could take all of the room that is kept for settlements. So
// the last part of it is for requests that make room, or take none.
//
// On a disk that is full nearly to the last byte even these are too many: there may be millions of leases to settle, and each takes
// some bytes until the engine merges its files. What is left then is for requests that end items, or what brings them.
package reserve

import "github.com/pqbridge/pqbridge/subjects"

// Serves reports whether a request that may change something is served. changes is false for one that only shows what
// there is. A verb that is not named here takes room. Settlements and pops have rules of their own.
func Serves(v subjects.Verb, changes bool) bool {
	switch v {
	case subjects.Remove, subjects.AdminRemove, subjects.AdminPurge, subjects.AdminDelete, subjects.AdminPause, subjects.AdminResume,
		subjects.AdminScheduleDelete, subjects.AdminSchedulePause, subjects.AdminSourceDelete, subjects.AdminSourcePause,
		subjects.AdminLinkDelete, subjects.AdminLinkPause:
		return true
	case subjects.AdminConfig, subjects.AdminKey, subjects.AdminSchedule, subjects.AdminSource, subjects.AdminLink:
		return !changes
	}
	return false
}

// ServesLast reports the same of a store on a disk that is full nearly to the last byte.
func ServesLast(v subjects.Verb, changes bool) bool {
	switch v {
	case subjects.Remove, subjects.AdminRemove, subjects.AdminPurge, subjects.AdminDelete,
		subjects.AdminScheduleDelete, subjects.AdminSourceDelete, subjects.AdminLinkDelete:
		return true
	}
	return !changes && Serves(v, changes)
}
