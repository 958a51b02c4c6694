package protocol

import "strings"

// Op is an operation: what a client may ask for. [Ops] has all of them.
type Op struct {
	Name    string   // in words, as errors and the methods of clients have it
	Subject string   // behind the prefix: <…> is a token that the request chooses, what is in […] may be missing
	Body    any      // of the request, as a value of its type; nil: it is empty
	Answer  any      // the body of the answer, likewise
	Again   Again    // what it does when it is done twice
	Right   Roles    // who may ask for it
	HTTP    string   // method and path over HTTP; "": there is none
	Errors  []Reason // besides those that any request may have: see [Op.Reasons]
	Doc     string   // a sentence
}

// Again says what becomes of an operation that is done twice, as when a client repeats it because its answer was lost.
type Again uint8

const (
	Once    Again = iota // the second time does something else, unless the request has an id
	Repeats              // the second time leads to the same state
	Reads                // it changes nothing
)

// Roles are those that a server's configuration gives permissions to: a set.
type Roles uint8

// The roles, as package subjects has them. What belongs to no queue is for those who have a role at all queues.
const (
	Producer Roles = 1 << iota
	Importer
	Consumer
	Taker
	Requeuer
	Viewer
	Admin

	// readers may do what shows a queue.
	readers = Viewer | Admin
)

// The bodies that are no JSON.
type (
	// Payload is what an item carries, or several items in a bundle. Headers say the rest.
	Payload []byte

	// Word is a settlement, such as [SettleAck].
	Word string
)

// Change stands for those fields of a type that a request changes.
type Change struct{ Of any }

// OfQueue says whether an operation is about one queue.
func (o *Op) OfQueue() bool { return strings.HasPrefix(o.Subject, "<queue>.") }

// Subjects are the forms of the operation's subject: with and without what may be missing, for both ends of the queue.
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

// Reasons are the reasons that an error of the operation may have.
func (o *Op) Reasons() []Reason {
	all := []Reason{ReasonBusy, ReasonQuotaRequests}
	if o.OfQueue() {
		all = append(all, ReasonUnknown)
	}
	return append(all, o.Errors...)
}

// OpNamed returns the operation with a name, false: there is none.
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
