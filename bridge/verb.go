package bridge

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/edits"
	"github.com/pqbridge/pqbridge/bridge/internal/links"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/pushes"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	"github.com/pqbridge/pqbridge/bridge/internal/settles"
	"github.com/pqbridge/pqbridge/subjects"
)

// verb is what all requests of one name share. To add one, add its row to the table, which names its [kind], and a file with its
// [desk.Work], which reads the request, runs at a worker of its kind and answers: in reads if it changes nothing, in edits if it
// changes items or queues from outside.
type verb struct {
	request.Verb
	subjects []subjects.Verb
	make     func(subjects.Verb) desk.Work // returns an empty request
	kind     kind
	bulk     []subjects.Verb // subjects of bulk operations
}

// kindOf is the kind of the verb's requests with a subject.
func (v *verb) kindOf(s subjects.Verb) kind {
	if slices.Contains(v.bulk, s) {
		return kindBulk
	}
	return v.kind
}

// newWork returns the work of a verb for a message.
func newWork(v *verb, s subjects.Subject, m *nats.Msg) desk.Work {
	w := v.make(s.Verb)
	w.Head().Prepare(w, &v.Verb, s, m)
	return w
}

// verbs is the table of all verbs, in the order of metrics and discovery.
var verbs = numbered([]*verb{
	{Verb: request.Verb{Name: "push", Refusal: request.AsPublish, Silent: true, Traced: true},
		subjects: []subjects.Verb{subjects.Push}, make: pushes.Push, kind: kindPush},
	{Verb: request.Verb{Name: "import"}, subjects: []subjects.Verb{subjects.Import}, make: pushes.Import, kind: kindImport},
	{Verb: request.Verb{Name: "pop", Traced: true}, subjects: []subjects.Verb{subjects.PopMin, subjects.PopMax}, make: pops.Pop, kind: kindPop},
	{Verb: request.Verb{Name: "peek"}, subjects: []subjects.Verb{subjects.PeekMin, subjects.PeekMax}, make: pops.Peek, kind: kindPeek},
	// A subscription to a wider pattern receives malformed settlements, too, which get an error.
	{Verb: request.Verb{Name: "ack", Pattern: "*.ack.>", Refusal: request.AsSettlement, Silent: true, Settles: true},
		subjects: []subjects.Verb{subjects.Ack}, make: settles.Ack, kind: kindSettlement},
	{Verb: request.Verb{Name: "info"}, subjects: []subjects.Verb{subjects.Info}, make: reads.Info, kind: kindQuery},
	{Verb: request.Verb{Name: "list"}, subjects: []subjects.Verb{subjects.List}, make: reads.List, kind: kindQuery},
	{Verb: request.Verb{Name: "get"}, subjects: []subjects.Verb{subjects.Get}, make: reads.Get, kind: kindQuery},
	{Verb: request.Verb{Name: "result"}, subjects: []subjects.Verb{subjects.Result}, make: results.Result, kind: kindResult},
	{Verb: request.Verb{Name: "keys"}, subjects: []subjects.Verb{subjects.Keys}, make: reads.Keys, kind: kindQuery},
	{Verb: request.Verb{Name: "key"}, subjects: []subjects.Verb{subjects.Key}, make: reads.Key, kind: kindQuery},
	{Verb: request.Verb{Name: "schedules"}, subjects: []subjects.Verb{subjects.Schedules}, make: reads.Schedules, kind: kindQuery},
	{Verb: request.Verb{Name: "schedule"}, subjects: []subjects.Verb{subjects.Schedule}, make: reads.Schedule, kind: kindQuery},
	{Verb: request.Verb{Name: "sources"}, subjects: []subjects.Verb{subjects.Sources}, make: reads.Sources, kind: kindQuery},
	{Verb: request.Verb{Name: "links"}, subjects: []subjects.Verb{subjects.Links}, make: reads.Links, kind: kindQuery},
	{Verb: request.Verb{Name: "link", Traced: true}, subjects: []subjects.Verb{subjects.Link}, make: links.Link, kind: kindPop},
	{Verb: request.Verb{Name: "cancel", Silent: true}, subjects: []subjects.Verb{subjects.Cancel}, make: edits.Cancel, kind: kindChange},
	{Verb: request.Verb{Name: "remove", Silent: true}, subjects: []subjects.Verb{subjects.Remove}, make: edits.Remove, kind: kindChange},
	{Verb: request.Verb{Name: "move", Silent: true}, subjects: []subjects.Verb{subjects.Move}, make: edits.Move, kind: kindChange},
	{Verb: request.Verb{Name: "requeue", Silent: true}, subjects: []subjects.Verb{subjects.Requeue}, make: edits.Requeue, kind: kindChange},
	{Verb: request.Verb{Name: "revoke", Silent: true}, subjects: []subjects.Verb{subjects.Revoke}, make: edits.Revoke, kind: kindChange},
	{
		Verb: request.Verb{Name: "admin", Silent: true}, make: edits.Admin, kind: kindChange,
		subjects: []subjects.Verb{
			subjects.AdminConfig, subjects.AdminPurge, subjects.AdminPause, subjects.AdminResume, subjects.AdminDelete,
			subjects.AdminRemove, subjects.AdminMove, subjects.AdminRevoke, subjects.AdminRequeue,
		},
		bulk: []subjects.Verb{subjects.AdminRemove, subjects.AdminMove, subjects.AdminRevoke, subjects.AdminRequeue},
	},
	{Verb: request.Verb{Name: "admin-key", Silent: true}, subjects: []subjects.Verb{subjects.AdminKey}, make: edits.Key, kind: kindChange},
	{
		Verb: request.Verb{Name: "admin-schedule", Silent: true}, make: edits.Schedule, kind: kindChange,
		subjects: []subjects.Verb{subjects.AdminSchedule, subjects.AdminSchedulePause,
			subjects.AdminScheduleResume, subjects.AdminScheduleDelete, subjects.AdminScheduleRun},
	},
	{
		Verb: request.Verb{Name: "admin-source", Silent: true}, make: edits.Source, kind: kindChange,
		subjects: []subjects.Verb{subjects.AdminSource, subjects.AdminSourcePause, subjects.AdminSourceResume, subjects.AdminSourceDelete},
	},
	{
		Verb: request.Verb{Name: "admin-link", Silent: true}, make: edits.Link, kind: kindChange,
		subjects: []subjects.Verb{subjects.AdminLink, subjects.AdminLinkPause, subjects.AdminLinkResume, subjects.AdminLinkDelete},
	},
	{Verb: request.Verb{Name: "sys"}, subjects: []subjects.Verb{subjects.SysList, subjects.SysInfo}, make: reads.Sys, kind: kindQuery},
	{Verb: request.Verb{Name: "cluster"},
		subjects: []subjects.Verb{subjects.SysClusterStatus, subjects.SysClusterStepDown, subjects.SysClusterReplace}, make: reads.NoCluster, kind: kindQuery},
	{Verb: request.Verb{Name: "none"}, make: makeNone}, // no request of the protocol
})

func makeNone(subjects.Verb) desk.Work { return new(desk.Unservable) }

func numbered(table []*verb) []*verb {
	for i, v := range table {
		v.Index = i
		if v.Pattern == "" && v.subjects != nil {
			v.Pattern = v.subjects[0].Pattern()
		}
	}
	return table
}

// Verbs that the code names.
var (
	verbPush = verbOf(subjects.Push)
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
		if v.Name == word {
			return v
		}
	}
	return verbNone
}

// verbNames are the names of all verbs, in the order of the table.
func verbNames() (names []string) {
	for _, v := range verbs {
		names = append(names, v.Name)
	}
	return names
}

// endpoints are the verbs that discovery shows.
func endpoints() []*verb { return verbs[:verbNone.Index] }
