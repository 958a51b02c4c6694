package bridge

import (
	"sync"

	"github.com/pqbridge/pqbridge/subjects"
)

// verb is what a request asks for. To add one, add its entry to the table and
// write a file with what it makes: a [work] that reads the request, goes to a lane,
// runs there and answers.
type verb struct {
	name     string // that requests are counted, traced and discovered by
	pattern  string // of its subjects, behind the prefix
	subjects []subjects.Verb
	refusal  refusal
	silent   bool                     // it does something for requests without a reply subject
	make     func(subjects.Verb) work // returns an empty request
	index    int                      // in the table
}

// refusal is how a request that failed is answered.
type refusal uint8

const (
	asService    refusal = iota // as NATS services do: a status and a text in headers
	asPublish                   // as JetStream answers a publish: an error in the body
	asSettlement                // as a server says that nobody is there: AckSync notices nothing else
)

// verbs is the table of all that the bridge answers. Metrics and discovery show
// them in this order. The lane that a verb goes to is said by what it makes:
// queries read, changes and settlements write, pushes, imports and pops have
// lanes of their own.
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

// Verbs that are looked for.
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

// verbNamed returns the verb that a word of a subject stands for, however wrong the
// rest of the subject is.
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

// pool keeps requests of one kind for the next ones.
type pool[T any] struct{ free sync.Pool }

func (p *pool[T]) get() *T {
	if w, is := p.free.Get().(*T); is {
		return w
	}
	return new(T)
}

// put takes a request back, emptied.
func (p *pool[T]) put(w *T) {
	var empty T
	*w = empty
	p.free.Put(w)
}
