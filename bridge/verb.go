package bridge

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/subjects"
)

// work is a request of one verb.
type work interface {
	request.Work

	// Read parses the request.
	Read(*codec.Wire) *failure.Failure
}

// sizeOf is how many bytes some requests have.
func sizeOf[W work](requests []W) (bytes int) {
	for _, r := range requests {
		bytes += r.Head().Size()
	}
	return bytes
}

// verb is a kind of request. To add one, add its entry to the table, and a file with
// its [work], which reads the request, runs in a lane and answers.
type verb struct {
	request.Verb
	subjects []subjects.Verb
	make     func(subjects.Verb) work // returns an empty request
}

// newWork returns the work of a verb for a message.
func newWork(v *verb, s subjects.Subject, m *nats.Msg) work {
	w := v.make(s.Verb)
	w.Head().Prepare(w, &v.Verb, s, m)
	return w
}

// unservable is a message on a subject that is no request of the protocol.
type unservable struct{ request.Request }

func makeNone(subjects.Verb) work { return new(unservable) }

func (n *unservable) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "subject %s: expected one that asks for something", failure.Quote(n.Msg.Subject))
}

// verbs is the table of all verbs, in the order of metrics and discovery. The type of
// the work says which lane it goes to: queries share one, changes and settlements
// another; pushes, imports and pops have lanes of their own.
var verbs = numbered([]*verb{
	{Verb: request.Verb{Name: "push", Pattern: "*.push", Refusal: request.AsPublish, Silent: true, Traced: true}, subjects: []subjects.Verb{subjects.Push}, make: makePush},
	{Verb: request.Verb{Name: "import", Pattern: "*.import"}, subjects: []subjects.Verb{subjects.Import}, make: makeImport},
	{Verb: request.Verb{Name: "pop", Pattern: "*.pop.*", Traced: true}, subjects: []subjects.Verb{subjects.PopMin, subjects.PopMax}, make: makePop},
	{Verb: request.Verb{Name: "peek", Pattern: "*.peek.*"}, subjects: []subjects.Verb{subjects.PeekMin, subjects.PeekMax}, make: makePeek},
	{Verb: request.Verb{Name: "ack", Pattern: "*.ack.>", Refusal: request.AsSettlement, Silent: true, Settles: true},
		subjects: []subjects.Verb{subjects.Ack}, make: makeSettlement},
	{Verb: request.Verb{Name: "info", Pattern: "*.info"}, subjects: []subjects.Verb{subjects.Info}, make: makeInfo},
	{Verb: request.Verb{Name: "list", Pattern: "*.list"}, subjects: []subjects.Verb{subjects.List}, make: makeList},
	{Verb: request.Verb{Name: "get", Pattern: "*.get.*"}, subjects: []subjects.Verb{subjects.Get}, make: makeGet},
	{Verb: request.Verb{Name: "keys", Pattern: "*.keys"}, subjects: []subjects.Verb{subjects.Keys}, make: makeKeys},
	{Verb: request.Verb{Name: "key", Pattern: "*.key.*"}, subjects: []subjects.Verb{subjects.Key}, make: makeKey},
	{Verb: request.Verb{Name: "schedules", Pattern: "*.schedules"}, subjects: []subjects.Verb{subjects.Schedules}, make: makeSchedules},
	{Verb: request.Verb{Name: "schedule", Pattern: "*.schedule.*"}, subjects: []subjects.Verb{subjects.Schedule}, make: makeSchedule},
	{Verb: request.Verb{Name: "sources", Pattern: "*.sources"}, subjects: []subjects.Verb{subjects.Sources}, make: makeSources},
	{Verb: request.Verb{Name: "links", Pattern: "*.links"}, subjects: []subjects.Verb{subjects.Links}, make: makeLinks},
	{Verb: request.Verb{Name: "link", Pattern: "*.link.*", Traced: true}, subjects: []subjects.Verb{subjects.Link}, make: makeLink},
	{Verb: request.Verb{Name: "remove", Pattern: "*.remove.*", Silent: true}, subjects: []subjects.Verb{subjects.Remove}, make: makeRemove},
	{Verb: request.Verb{Name: "move", Pattern: "*.move.*.*", Silent: true}, subjects: []subjects.Verb{subjects.Move}, make: makeMove},
	{Verb: request.Verb{Name: "requeue", Pattern: "*.requeue.*", Silent: true}, subjects: []subjects.Verb{subjects.Requeue}, make: makeRequeue},
	{Verb: request.Verb{Name: "revoke", Pattern: "*.revoke.*", Silent: true}, subjects: []subjects.Verb{subjects.Revoke}, make: makeRevoke},
	{
		Verb: request.Verb{Name: "admin", Pattern: "*.admin.*", Silent: true}, make: makeAdmin,
		subjects: []subjects.Verb{
			subjects.AdminConfig, subjects.AdminPurge, subjects.AdminPause, subjects.AdminResume, subjects.AdminDelete,
			subjects.AdminRemove, subjects.AdminMove, subjects.AdminRevoke, subjects.AdminRequeue,
		},
	},
	{Verb: request.Verb{Name: "admin-key", Pattern: "*.admin.key.*", Silent: true}, subjects: []subjects.Verb{subjects.AdminKey}, make: makeAdminKey},
	{
		Verb: request.Verb{Name: "admin-schedule", Pattern: "*.admin.schedule.>", Silent: true}, make: makeAdminSchedule,
		subjects: []subjects.Verb{subjects.AdminSchedule, subjects.AdminSchedulePause,
			subjects.AdminScheduleResume, subjects.AdminScheduleDelete, subjects.AdminScheduleRun},
	},
	{
		Verb: request.Verb{Name: "admin-source", Pattern: "*.admin.source.>", Silent: true}, make: makeAdminSource,
		subjects: []subjects.Verb{subjects.AdminSource, subjects.AdminSourcePause, subjects.AdminSourceResume, subjects.AdminSourceDelete},
	},
	{
		Verb: request.Verb{Name: "admin-link", Pattern: "*.admin.link.>", Silent: true}, make: makeAdminLink,
		subjects: []subjects.Verb{subjects.AdminLink, subjects.AdminLinkPause, subjects.AdminLinkResume, subjects.AdminLinkDelete},
	},
	{Verb: request.Verb{Name: "sys", Pattern: "_sys.*"}, subjects: []subjects.Verb{subjects.SysList, subjects.SysInfo}, make: makeSys},
	{Verb: request.Verb{Name: "cluster", Pattern: "_sys.cluster.*"},
		subjects: []subjects.Verb{subjects.SysClusterStatus, subjects.SysClusterStepDown, subjects.SysClusterReplace}, make: makeAlone},
	{Verb: request.Verb{Name: "none"}, make: makeNone}, // no request of the protocol
})

func numbered(table []*verb) []*verb {
	for i, v := range table {
		v.Index = i
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

// pool keeps requests of one kind for further use.
type pool[T any] struct{ free sync.Pool }

func (p *pool[T]) get() *T {
	if w, is := p.free.Get().(*T); is {
		return w
	}
	return new(T)
}

// put empties a request and keeps it.
func (p *pool[T]) put(w *T) {
	var empty T
	*w = empty
	p.free.Put(w)
}
