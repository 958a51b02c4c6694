package protocol

import "strings"

// Op is an operation that a client may ask for. [Ops] has all operations.
type Op struct {
	Name    string   // in words, as errors and the methods of clients name it
	Subject string   // without the prefix in front: <…> is a token that the request chooses, a part in […] may be missing
	Body    any      // the body of the request, as a value of its type; nil: it is empty
	Answer  any      // the body of the answer, as a value of its type; nil: it is empty
	Again   Again    // what it does when a client repeats it
	Right   Roles    // who may ask for it
	HTTP    string   // method and path over HTTP; "": there is none
	Errors  []Reason // the reasons of its errors, besides those that any request may have: see [Op.Reasons]
	Doc     string   // a sentence
}

// Again says what an operation does when it is done twice, as when a client repeats it because the first answer was
// lost.
type Again uint8

const (
	Once    Again = iota // the second time does something else, unless the request has an id
	Repeats              // the second time leads to the same state
	Reads                // it changes nothing
)

// Roles is a set of the roles to which a server's configuration gives permissions.
type Roles uint8

// The roles, as package subjects has them. Operations that are about no queue are for those who have a role at all
// queues.
const (
	Producer Roles = 1 << iota
	Importer
	Consumer
	Taker
	Requeuer
	Viewer
	Admin
	Caller

	// readers may do the operations that show a queue.
	readers = Viewer | Admin
)

// The bodies that are not JSON.
type (
	// Payload is the payload of an item, or several items in a bundle. Headers have the rest.
	Payload []byte

	// Word is a settlement, such as [SettleAck].
	Word string
)

// Change stands for some fields of a type: those that a request changes.
type Change struct{ Of any }

// BodyOverHTTP reports whether a request over HTTP has the operation's body as its own. Otherwise its fields are parameters.
func (o *Op) BodyOverHTTP() bool {
	switch o.Body.(type) {
	case ScheduleChange, SourceResume, BulkRequest:
		return true
	}
	return strings.HasPrefix(o.HTTP, "PATCH ")
}

// OfQueue reports whether an operation is about one queue.
func (o *Op) OfQueue() bool { return strings.HasPrefix(o.Subject, "<queue>.") }

// Subjects returns all forms of the operation's subject: with and without the parts that may be missing, for both
// ends of the queue.
func (o *Op) Subjects() []string {
	before, optional, is := strings.Cut(o.Subject, "[")
	switch {
	case is:
		return []string{before, before + strings.TrimSuffix(optional, "]")}
	case strings.HasSuffix(before, ".<end>"):
		before = strings.TrimSuffix(before, "<end>")
		return []string{before + "min", before + "max"}
	}
	return []string{o.Subject}
}

// Reasons returns the reasons that an error of the operation may have.
func (o *Op) Reasons() []Reason {
	all := []Reason{ReasonBusy, ReasonQuotaRequests}
	if o.OfQueue() {
		all = append(all, ReasonUnknown)
	}
	return append(all, o.Errors...)
}

// OpNamed returns the operation with a name. is reports whether there is one.
func OpNamed(name string) (o Op, is bool) {
	at, is := opsByName[name]
	if !is {
		return Op{}, false
	}
	return Ops[at], true
}

var opsByName = func() map[string]int {
	all := make(map[string]int, len(Ops))
	for i := range Ops {
		all[Ops[i].Name] = i
	}
	return all
}()
