package subjects

import (
	"slices"
	"strings"
)

// Verb is the operation that a subject requests. The zero Verb is invalid.
type Verb uint8

// The verbs. Those from SysList on belong to no queue.
const (
	Push Verb = iota + 1
	Import
	PopMin
	PopMax
	PeekMin
	PeekMax
	Ack
	Info
	List
	Get
	Remove
	Move
	Requeue
	Revoke
	Keys
	Key
	Schedules
	Schedule
	Sources
	Links
	Link
	AdminConfig
	AdminPurge
	AdminPause
	AdminResume
	AdminDelete
	AdminRemove
	AdminMove
	AdminRevoke
	AdminRequeue
	AdminKey
	AdminSchedule
	AdminSchedulePause
	AdminScheduleResume
	AdminScheduleDelete
	AdminScheduleRun
	AdminSource
	AdminSourcePause
	AdminSourceResume
	AdminSourceDelete
	AdminLink
	AdminLinkPause
	AdminLinkResume
	AdminLinkDelete
	Event
	SysList
	SysInfo
	SysClusterStatus
	SysClusterStepDown
	SysClusterReplace

	Verbs = iota + 1 // bounds tables that a Verb indexes
)

// verbNames holds the tokens of each verb.
var verbNames = [...]string{
	Push:        "push",
	Import:      "import",
	PopMin:      "pop.min",
	PopMax:      "pop.max",
	PeekMin:     "peek.min",
	PeekMax:     "peek.max",
	Ack:         "ack",
	Info:        "info",
	List:        "list",
	Get:         "get",
	Remove:      "remove",
	Move:        "move",
	Requeue:     "requeue",
	Revoke:      "revoke",
	Keys:        "keys",
	Key:         "key",
	Schedules:   "schedules",
	Schedule:    "schedule",
	Sources:     "sources",
	Links:       "links",
	Link:        "link",
	AdminConfig: "admin.config",
	AdminPurge:  "admin.purge",
	AdminPause:  "admin.pause",
	AdminResume: "admin.resume",
	AdminDelete: "admin.delete",
	AdminKey:    "admin.key",

	AdminRemove:  "admin.remove",
	AdminMove:    "admin.move",
	AdminRevoke:  "admin.revoke",
	AdminRequeue: "admin.requeue",

	AdminSchedule:       "admin.schedule",
	AdminSchedulePause:  "admin.schedule.pause", // the name of the schedule stands before the last token
	AdminScheduleResume: "admin.schedule.resume",
	AdminScheduleDelete: "admin.schedule.delete",
	AdminScheduleRun:    "admin.schedule.run",

	AdminSource:       "admin.source",
	AdminSourcePause:  "admin.source.pause", // the name of the source stands before the last token
	AdminSourceResume: "admin.source.resume",
	AdminSourceDelete: "admin.source.delete",

	AdminLink:       "admin.link",
	AdminLinkPause:  "admin.link.pause", // the name of the link stands before the last token
	AdminLinkResume: "admin.link.resume",
	AdminLinkDelete: "admin.link.delete",

	Event:   "event",
	SysList: "_sys.list",
	SysInfo: "_sys.info",

	SysClusterStatus:   "_sys.cluster.status",
	SysClusterStepDown: "_sys.cluster.step-down",
	SysClusterReplace:  "_sys.cluster.replace",
}

// queueVerbs is the list in the error for an unknown verb.
var queueVerbs = strings.Join(append(slices.Clone(verbNames[Push:AdminSchedule+1]), verbNames[AdminSource], verbNames[AdminLink], verbNames[Event]), ", ")

// Administers reports whether requests with the verb are an administrator's.
func (v Verb) Administers() bool { return strings.HasPrefix(v.String(), "admin.") }

// String returns the verb's tokens in a subject, such as "pop.min".
func (v Verb) String() string {
	if v < Push || int(v) >= len(verbNames) {
		return "none"
	}
	return verbNames[v]
}
