package subjects

import "strings"

// Verb is what a subject asks for. The zero Verb is none.
type Verb uint8

// The verbs.
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
	AdminConfig
	AdminPurge
	AdminPause
	AdminResume
	AdminDelete
	Event
	SysList
	SysInfo
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
	AdminConfig: "admin.config",
	AdminPurge:  "admin.purge",
	AdminPause:  "admin.pause",
	AdminResume: "admin.resume",
	AdminDelete: "admin.delete",
	Event:       "event",
	SysList:     "_sys.list",
	SysInfo:     "_sys.info",
}

// queueVerbs is what an unknown verb is answered with.
var queueVerbs = strings.Join(verbNames[Push:SysList], ", ")

// String returns the verb as it stands in a subject, such as "pop.min".
func (v Verb) String() string {
	if v < Push || v > SysInfo {
		return "none"
	}
	return verbNames[v]
}
