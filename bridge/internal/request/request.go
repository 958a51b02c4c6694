// Package request is a request on its way through a bridge, whatever its verb. The [Gate] admits it, or refuses it
// if too many are in flight; the [Responder] answers it and ends it: it is counted, traced, and not in flight any
// more.
//
// What it guarantees: a request leaves the gate once; a push without a reply subject that was not stored is counted
// and announced; answers have the form that clients recognise for the verb.
//
// The package knows neither the store nor turns, and of the core only what an answer has: items.
package request

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Request is the part that all requests have.
type Request struct {
	Msg     *nats.Msg
	Subject subjects.Subject
	Verb    *Verb
	Refusal Refusal
	Work    Work // that it is part of
	Arrived time.Time

	// Failure is why the transaction did not serve the request. It is valid only after
	// the commit.
	Failure *failure.Failure

	// RowsCost is how many requests the rows cost that the last attempt has read and written, beyond those that are
	// paid otherwise.
	RowsCost int

	// Share is the share of the asking tenant; nil: no tenant asks.
	Share *Share

	// OnLeave, if set, is called when the request leaves the gate.
	OnLeave func()

	// Bundled is how many requests the message has, if it is a bundle; otherwise it is 0.
	Bundled int

	counted int64         // bytes that the gate counts; -1 when it does not count the request
	part    int           // of a request of a bundle: its size
	more    int64         // requests of a bundle that the gate counts, the first aside
	since   time.Time     // start of the work on it; zero while it waits
	spent   time.Duration // work on it before it waited
}

// Work is a request of one verb.
type Work interface {
	// Head returns the part that all requests have.
	Head() *Request

	// Items are the items in the answer, for the trace.
	Items() []fdbpq.Item

	// Act reports whether an administrator has changed something by it, with the details for the log.
	Act() (done bool, details []any)

	// End releases the request, which was answered.
	End()
}

// Head returns the request.
func (r *Request) Head() *Request { return r }

// Items are none.
func (r *Request) Items() []fdbpq.Item { return nil }

// Act is none.
func (r *Request) Act() (done bool, details []any) { return false, nil }

// End does nothing.
func (r *Request) End() {}

// Verb is a kind of request.
type Verb struct {
	Name    string // in metrics, traces and discovery
	Pattern string // of its subjects, after the prefix; "" in a table: as package subjects has it
	Refusal Refusal
	Silent  bool // requests without a reply subject have an effect, too
	Traced  bool // requests have spans
	Settles bool // settlements are counted apart; they have spans when they also pop
	Index   int  // among all verbs
}

// Refusal is the form of the answer to a request that failed.
type Refusal uint8

// The forms of refusals.
const (
	AsService    Refusal = iota // as NATS services do: a status and a text in headers
	AsPublish                   // as JetStream answers a publish: an error in the body
	AsSettlement                // as a server answers without responders: AckSync recognises nothing else
	InBundle                    // none: the answer to its bundle has the failure
)

// Prepare makes a message the request of a new work.
func (r *Request) Prepare(w Work, v *Verb, s subjects.Subject, m *nats.Msg) {
	r.Msg, r.Subject, r.Verb, r.Refusal, r.Work = m, s, v, v.Refusal, w
	r.Arrived, r.counted = time.Now(), int64(m.Size())
	r.since = r.Arrived
}

// PrepareWithin makes a request of a bundle the request of a new work. The gate counts the bundle. size is the
// request's part of the bundle's bytes, and headers are its own headers, for the trace.
func (r *Request) PrepareWithin(bundle *Request, w Work, size int, headers nats.Header) {
	r.Msg, r.Subject, r.Verb, r.Refusal, r.Work = noMessage, bundle.Subject, bundle.Verb, bundle.Refusal, w
	if len(headers) > 0 {
		r.Msg = &nats.Msg{Header: headers}
	}
	if bundle.Msg.Reply != "" {
		r.Refusal = InBundle
	}
	r.Arrived, r.since, r.spent = bundle.Arrived, bundle.since, bundle.spent
	r.PassWithin(size)
}

// noMessage is the message of a request that came in a bundle.
var noMessage = new(nats.Msg)

// Count is how many requests the message has.
func (r *Request) Count() int { return max(1, r.Bundled) }

// Size is the message's size, plus an amount for each request of a bundle, so that it shows how large the
// transaction becomes.
func (r *Request) Size() int {
	if r.part > 0 {
		return r.part + bundledSize
	}
	return r.Msg.Size() + r.Bundled*bundledSize
}

// bundledSize is the cost of a request of a bundle in a transaction beside its bytes: keys.
const bundledSize = 400

// PassWithin makes a request of a bundle bypass the gate, which counts the bundle. size is what it adds to its
// transaction.
func (r *Request) PassWithin(size int) {
	r.part = size
	r.PassGate()
}

// PassGate makes a request that is refused anyway bypass the gate, which does not count
// it.
func (r *Request) PassGate() { r.counted = -1 }

// Keep drops the parts of a message that are needed only to serve it, before the gate counts it.
func (r *Request) Keep() {
	r.Msg = Kept(r.Msg)
	r.counted = int64(r.Msg.Size())
}

// BeginWait stops the time of the work on the request, until an attempt to serve it.
func (r *Request) BeginWait() { r.spent, r.since = r.Took(), time.Time{} }

// BeginAttempt begins an attempt to serve a request that waits.
func (r *Request) BeginAttempt(now time.Time) { r.since = now }

// AbandonAttempt makes the request wait on. The attempt does not count as work on it.
func (r *Request) AbandonAttempt() { r.since = time.Time{} }

// Took is how long the bridge has worked on the request, without the time in which it
// waited for an item.
func (r *Request) Took() time.Duration {
	if r.since.IsZero() {
		return r.spent
	}
	return r.spent + time.Since(r.since)
}

// act logs an administrator's change, with what the request says of its sender. Each verb is a message of its
// own, so the log leaves out repetitions only of a verb that is repeated without end for one queue or tenant.
func (re *Responder) act(r *Request, details []any) {
	args := []any{"queue", r.Subject.Queue}
	for _, of := range []struct{ name, value string }{{"key", r.Subject.Key}, {"schedule", r.Subject.Schedule}, {"source", r.Subject.Source}, {"link", r.Subject.Link}} {
		if of.value != "" {
			args = append(args, of.name, of.value)
		}
	}
	args = append(append(args, details...), sender(r)...)
	re.Log.Info("administrative act: "+r.Subject.Verb.String(), args...)
}

// sender is what came with a request about its sender. It proves nothing: a client may name the inbox of another one
// as its reply subject, and send the headers of a NATS server and of the HTTP gateway itself.
func sender(r *Request) (args []any) {
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, fdbpq.ReasonText(value))
		}
	}
	add("reply_prefix", r.Msg.Reply[:max(0, strings.LastIndexByte(r.Msg.Reply, '.'))]) // without the part for this request alone
	var client struct {
		Account string `json:"acc"`
		User    string `json:"user"`
		Name    string `json:"name"`
		Host    string `json:"host"`
	}
	if json.Unmarshal([]byte(r.Msg.Header.Get(requestInfo)), &client) == nil { // anything else is not the server's
		add("account", client.Account)
		add("user", client.User)
		add("client", client.Name)
		add("host", client.Host)
	}
	add("address", r.Msg.Header.Get(protocol.HeaderForwarded))
	return args
}

// requestInfo is the header in which a NATS server describes a client of another account, if the import shares
// that.
const requestInfo = "Nats-Request-Info"
