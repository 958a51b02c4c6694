package bridge

import (
	"github.com/pqbridge/pqbridge/subjects"
)

// verbs is the table of all verbs, in the order of metrics and discovery. The type of
// the work says which lane it goes to: queries share one, changes and settlements
// another; pushes, imports and pops have lanes of their own.
var verbs = numbered([]*verb{
	{name: "push", pattern: "*.push", subjects: []subjects.Verb{subjects.Push}, refusal: asPublish, silent: true, make: makePush},
	{name: "import", pattern: "*.import", subjects: []subjects.Verb{subjects.Import}, make: makeImport},
	{name: "pop", pattern: "*.pop.*", subjects: []subjects.Verb{subjects.PopMin, subjects.PopMax}, make: makePop},
	{name: "peek", pattern: "*.peek.*", subjects: []subjects.Verb{subjects.PeekMin, subjects.PeekMax}, make: makePeek},
	{name: "ack", pattern: "*.ack.>", subjects: []subjects.Verb{subjects.Ack}, refusal: asSettlement, silent: true, make: makeSettlement},
	{name: "info", pattern: "*.info", subjects: []subjects.Verb{subjects.Info}, make: makeInfo},
	{name: "list", pattern: "*.list", subjects: []subjects.Verb{subjects.List}, make: makeList},
	{name: "get", pattern: "*.get.*", subjects: []subjects.Verb{subjects.Get}, make: makeGet},
	{name: "remove", pattern: "*.remove.*", subjects: []subjects.Verb{subjects.Remove}, silent: true, make: makeRemove},
	{name: "move", pattern: "*.move.*.*", subjects: []subjects.Verb{subjects.Move}, silent: true, make: makeMove},
	{
		name: "admin", pattern: "*.admin.*", silent: true, make: makeAdmin,
		subjects: []subjects.Verb{subjects.AdminConfig, subjects.AdminPurge, subjects.AdminPause, subjects.AdminResume, subjects.AdminDelete},
	},
	{name: "sys", pattern: "_sys.*", subjects: []subjects.Verb{subjects.SysList, subjects.SysInfo}, make: makeSys},
	{name: "none", make: makeNone}, // no request of the protocol
})

func numbered(table []*verb) []*verb {
	for i, v := range table {
		v.index = i
	}
	return table
}

// Verbs that the code names.
var (
	verbPush = verbOf(subjects.Push)
	verbPop  = verbOf(subjects.PopMin)
	verbAck  = verbOf(subjects.Ack)
	verbInfo = verbOf(subjects.Info)
	verbNone = verbs[len(verbs)-1]
)

// bySubject finds the entry of a subject's verb.
var bySubject = func() (table [subjects.Verbs]*verb) {
	for i := range table {
		table[i] = verbs[len(verbs)-1]
	}
	for _, v := range verbs {
		for _, s := range v.subjects {
			table[s] = v
		}
	}
	return table
}()

func verbOf(s subjects.Verb) *verb { return bySubject[s] }

// verbNamed returns the verb with a name, also for a subject that is malformed
// elsewhere.
func verbNamed(word string) *verb {
	for _, v := range verbs {
		if v.name == word {
			return v
		}
	}
	return verbNone
}

// endpoints are the verbs that discovery shows.
func endpoints() []*verb { return verbs[:verbNone.index] }
