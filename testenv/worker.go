package testenv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/history"
)

// holding is a lease of a worker.
type holding struct {
	ack      string // subject
	item     string
	key      string
	priority int64
	fence    int64
	lease    time.Duration
}

// Worker is a client that does random operations on one queue, one after the other, and records them. It repeats a
// request without an answer under the same id, so the operation happens exactly once. Some pops, and bundles of
// pushes, have no id and are not repeated. One request in four is a bundle, if the verb has bundles.
type Worker struct {
	testing.TB
	ID       int
	Queue    string
	Life     int // of the queue, if earlier ones had its name: repeated pops outlive it
	Dial     func(...nats.Option) (*nats.Conn, error)
	Random   *rand.Rand
	Recorder *history.Recorder
	Answers  *atomic.Int64 // of all workers
	Loses    bool          // loses answers on purpose
	Vanishes bool          // loses connections, and lets leases expire
	Lasting  time.Duration // of leases that do not run out; 0: ten minutes
	Attempt  time.Duration // for one answer, behind which it is lost; 0: a second, and more on a busy machine
	Padding  int           // bytes behind the name of an item
	Patience time.Duration // for an answer other than a request to retry; 0: the package's
	Damaged  int           // requests that were refused because the store is damaged
	Retries  bool          // repeats such requests: another node may have a copy without damage
	Keys     int           // of items; 0: they have none. With keys every pop is a lease

	nc       *nats.Conn
	requests int
	held     []holding
	inbox    string // and a number, for each attempt
	attempts int
	replies  chan *nats.Msg
}

const (
	pause     = 10 * time.Millisecond // before the next attempt
	steady    = 10 * time.Minute
	fleeting  = time.Second
	urgencies = 5
)

// Connect connects the worker. The connection reconnects by itself.
func (w *Worker) Connect() {
	w.Helper()
	var err error
	w.nc, err = w.Dial(nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		w.Fatal(err)
	}
	w.inbox, w.replies = w.nc.NewInbox(), make(chan *nats.Msg, 64)
	if _, err := w.nc.ChanSubscribe(w.inbox+".*", w.replies); err != nil {
		w.Fatal(err)
	}
}

// request sends a request and returns the answer unchanged: nats.go's own requests
// turn a lost lease into "no responders".
func (w *Worker) request(request *nats.Msg) (*nats.Msg, error) {
	w.attempts++
	reply := fmt.Sprintf("%s.%d", w.inbox, w.attempts)
	if err := w.send(request, reply); err != nil {
		return nil, err
	}
	// A late answer is a lost one.
	for late := time.After(cmp.Or(w.Attempt, Times(time.Second))); ; {
		select {
		case m := <-w.replies:
			if m.Subject == reply {
				return m, nil
			}
		case <-late:
			return nil, nats.ErrTimeout
		}
	}
}

// Step does one operation.
func (w *Worker) Step() {
	if w.Keys > 0 {
		w.stepWithKeys()
		w.Answers.Add(1)
		return
	}
	switch n := w.Random.IntN(100); {
	case n < 38:
		w.push()
	case n < 50:
		w.look(history.Pop, 0)
	case n < 53:
		w.look(history.Peek, 0)
	case n < 56 && w.Vanishes:
		w.look(history.Lease, fleeting)
	case n < 76 && len(w.held) < 4:
		w.look(history.Lease, cmp.Or(w.Lasting, steady))
	case len(w.held) > 1 && w.bundles():
		w.settleBundle()
	case len(w.held) > 0:
		at := w.Random.IntN(len(w.held))
		w.settle(at, []history.Kind{history.Ack, history.Ack, history.Nak, history.Extend}[w.Random.IntN(4)])
	default:
		w.push()
	}
	w.Answers.Add(1)
}

// Hold takes over a lease.
func (w *Worker) Hold(lease history.Operation) {
	w.held = append(w.held, holding{lease.Ack, lease.Item, lease.Key, lease.Priority, lease.Fence, lease.Lease})
}

// Finish gives up the worker's leases.
func (w *Worker) Finish() {
	for len(w.held) > 0 {
		w.settle(0, []history.Kind{history.Ack, history.Nak}[w.Random.IntN(2)])
	}
}

func (w *Worker) name() string {
	w.requests++
	return fmt.Sprintf("%s-%d-%d-%d", w.Queue, w.Life, w.ID, w.requests)
}

func (w *Worker) push() {
	if w.bundles() {
		w.pushBundle()
		return
	}
	o := history.Operation{Kind: history.Push, Item: w.name(), Priority: w.Random.Int64N(urgencies), Key: w.anyKey()}
	request := nats.NewMsg(fmt.Sprintf("pq.%s.push.%d", w.Queue, o.Priority))
	request.Data = []byte(o.Item + " " + strings.Repeat("x", w.Padding))
	request.Header.Set("Nats-Msg-Id", o.Item)
	if o.Key != "" {
		request.Header.Set("PQ-Key", o.Key)
	}
	w.record(o, func(o *history.Operation) bool {
		reply, tries := w.Repeat(request)
		o.Outcome, o.Repeated = history.Done, tries > 1
		return w.accepted("push "+o.Item, reply)
	})
}

// accepted reports whether a push was acknowledged.
func (w *Worker) accepted(what string, reply *nats.Msg) bool {
	switch {
	case IsAck(reply):
		return true
	case reply.Header.Get("Nats-Service-Error-Code") == "506":
		w.Damaged++
	default:
		w.Errorf("%s: refused: %v %s", what, reply.Header, reply.Data)
	}
	return false
}

// record runs an operation and records it with its client and times, unless do returns
// false.
func (w *Worker) record(o history.Operation, do func(*history.Operation) bool) {
	o.Client, o.Call = w.ID, w.Recorder.Now()
	if do(&o) {
		if o.Return == 0 {
			o.Return = w.Recorder.Now()
		}
		w.Recorder.Add(o)
	}
}

// looking returns a request that pops, leases or peeks, and whether it is sent only once.
func (w *Worker) looking(kind history.Kind, lease time.Duration) (request *nats.Msg, o history.Operation, once bool) {
	o = history.Operation{Kind: kind, End: []history.End{history.Min, history.Max}[w.Random.IntN(2)], Lease: lease}
	if w.Keys > 0 {
		o.End = history.Min // the other end is refused
	}
	verb := "pop"
	if kind == history.Peek {
		verb = "peek"
	}
	request = nats.NewMsg(fmt.Sprintf("pq.%s.%s.%s", w.Queue, verb, o.End))
	if w.Random.IntN(4) == 0 {
		request.Header.Set("PQ-Wait", "200ms")
	}
	// In a queue with keys, missing fences show which leases had no answer.
	unnamed := kind == history.Pop || lease == fleeting && w.Keys > 0
	once = kind == history.Peek || unnamed && w.Random.IntN(2) == 0
	if lease > 0 {
		request.Header.Set("PQ-Lease", lease.String())
	}
	if !once {
		request.Header.Set("Nats-Msg-Id", w.name())
	}
	return request, o, once
}

// look pops, leases or peeks.
func (w *Worker) look(kind history.Kind, lease time.Duration) {
	if kind != history.Peek && w.bundles() {
		w.lookBundle(kind, lease)
		return
	}
	request, o, once := w.looking(kind, lease)
	w.record(o, func(o *history.Operation) bool {
		var reply *nats.Msg
		if once {
			var err error
			if reply, err = w.request(request); err == nil && noResponders(reply) {
				return false
			} else if err != nil || again(reply) {
				o.Outcome, o.Return = history.Unknown, history.Never
				return true
			}
		} else {
			var tries int
			reply, tries = w.Repeat(request)
			o.Repeated = tries > 1
		}
		w.explain(o, reply)
		return w.found(o, reply)
	})
}

// found reads the answer to a pop, a lease or a peek.
func (w *Worker) found(o *history.Operation, reply *nats.Msg) bool {
	switch status := reply.Header.Get("Status"); {
	case IsItem(reply):
		o.Outcome = history.Done
		o.Item, _, _ = strings.Cut(string(reply.Data), " ")
		var err error
		if o.Priority, err = strconv.ParseInt(reply.Header.Get("PQ-Priority"), 10, 64); err != nil {
			w.Errorf("%s: its priority: %v; %v", o.Item, err, reply.Header)
		}
		o.Key = reply.Header.Get("PQ-Key")
		if o.Kind != history.Lease {
			return true
		}
		o.KeyFence = w.keyFence(reply)
		if o.Fence, err = strconv.ParseInt(reply.Header.Get("PQ-Fence"), 10, 64); err != nil {
			w.Errorf("%s: the fence of a lease of %s, repeated %t: %v; %v", o.Item, o.Lease, o.Repeated, err, reply.Header)
		}
		o.Ack = reply.Header.Get("PQ-Ack")
		if o.Lease != fleeting {
			w.Hold(*o)
		}
	case status == "404" || status == "408":
		o.Outcome = history.Nothing
	case reply.Header.Get("Nats-Service-Error-Code") == "410" && o.Kind == history.Lease:
		// The bridge gave the lease back, because no client received it, and another
		// client has it. Or the lease ran out before its answer arrived.
		o.Outcome = history.Unknown
		if o.Lease != fleeting { // which does not run out here
			o.Lease = 0
		}
	case status == "506":
		w.Damaged++
		return false
	default:
		w.Errorf("%s: refused: %v %s", o.Kind, reply.Header, reply.Data)
		return false
	}
	return true
}

var settlementWords = map[history.Kind]string{history.Ack: "+ACK", history.Nak: "-NAK", history.Extend: "+WPI"}

func (w *Worker) settle(at int, kind history.Kind) {
	h := w.held[at]
	if kind != history.Extend {
		w.held = append(w.held[:at], w.held[at+1:]...)
	}
	request := nats.NewMsg(h.ack)
	request.Data = []byte(settlementWords[kind])
	o := history.Operation{Kind: kind, Item: h.item, Key: h.key, Priority: h.priority, Fence: h.fence}
	if kind == history.Extend {
		o.Lease = h.lease
	}
	w.record(o, func(o *history.Operation) bool {
		reply, tries := w.Repeat(request)
		o.Repeated = tries > 1
		switch reply.Header.Get("Nats-Service-Error-Code") {
		case "":
			o.Outcome = history.Done
		case "410":
			o.Outcome = history.Nothing
		case "506":
			w.Damaged++
			return false
		default:
			w.Errorf("%s of %s: refused: %v %s", kind, h.item, reply.Header, reply.Data)
			return false
		}
		return true
	})
}

// again reports whether to repeat a request: its result is unknown, or a retry may succeed.
func again(reply *nats.Msg) bool {
	code := reply.Header.Get("Nats-Service-Error-Code")
	return code == "503" || code == "504" || code == "429" || noResponders(reply) ||
		code == "409" && reply.Header.Get("Description") == "Server Shutdown"
}

// noResponders reports whether the server found no responder for the request.
func noResponders(reply *nats.Msg) bool {
	return reply.Header.Get("Status") == "503" && reply.Header.Get("Nats-Service-Error-Code") == ""
}

// patience bounds the wait for an answer other than a request to retry.
func (w *Worker) patience() time.Duration { return cmp.Or(w.Patience, Patience()) }

// Repeat sends a request until it is answered, and returns how often. A repeated pop says that it is one.
func (w *Worker) Repeat(request *nats.Msg) (*nats.Msg, int) {
	tries := 0
	if w.Loses {
		switch n := w.Random.IntN(60); {
		case n == 0: // the answer is lost
			ignored, err := w.nc.SubscribeSync(w.nc.NewInbox())
			if err != nil {
				w.Fatal(err)
			}
			tries++
			w.lose(request, ignored.Subject)
			defer ignored.Unsubscribe()
		case n == 1 && w.Vanishes: // no client receives the answer
			tries++
			w.lose(request, w.nc.NewInbox())
		case n == 2 && w.Vanishes: // the connection is lost
			tries++
			w.lose(request, w.nc.NewInbox())
			w.nc.Close()
			w.Connect()
		}
	}
	patience := w.patience()
	for end := time.Now().Add(patience); ; {
		if tries++; tries > 1 && (strings.Contains(request.Subject, ".pop.") || string(request.Data) == next) {
			request.Header.Set("PQ-Repeat", "true") // the last word, if it finds nothing
		}
		reply, err := w.request(request)
		damaged := err == nil && w.Retries && reply.Header.Get("Nats-Service-Error-Code") == "506"
		if err == nil && !again(reply) && !damaged {
			return reply, tries
		}
		if time.Now().After(end) {
			w.Fatalf("%s: no answer in %s: %v", request.Subject, patience, err)
		}
		<-time.After(pause)
	}
}

// lose sends a request whose answer goes to a subject without a reader.
func (w *Worker) lose(request *nats.Msg, reply string) {
	if err := w.send(request, reply); err != nil {
		w.Fatal(err)
	}
}

func (w *Worker) send(request *nats.Msg, reply string) error {
	return w.nc.PublishMsg(&nats.Msg{Subject: request.Subject, Reply: reply, Header: request.Header, Data: request.Data})
}

// Empty pops until no item is ready.
func (w *Worker) Empty() {
	w.Helper()
	for IsItem(w.take(0)) {
	}
}

// pop pops the first item, and repeats the request until it is answered.
func (w *Worker) pop(wait time.Duration) (reply *nats.Msg) {
	request := nats.NewMsg("pq." + w.Queue + ".pop.min")
	request.Header.Set("Nats-Msg-Id", w.name())
	if wait > 0 {
		request.Header.Set("PQ-Wait", wait.String())
	}
	o := history.Operation{Kind: history.Pop, End: history.Min}
	if w.Keys > 0 {
		o.Kind, o.Lease = history.Lease, steady
		request.Header.Set("PQ-Lease", steady.String())
	}
	w.record(o, func(o *history.Operation) bool {
		reply, _ = w.Repeat(request)
		return w.found(o, reply)
	})
	return reply
}

// Drain pops until the queue has no item in any state.
func (w *Worker) Drain() {
	w.Helper()
	w.Loses = false
	for end := time.Now().Add(w.patience()); ; {
		reply := w.take(200 * time.Millisecond)
		if IsItem(reply) {
			end = time.Now().Add(w.patience()) // there may be many
		}
		if !IsItem(reply) && reply.Header.Get("Status") == "404" || strings.Contains(w.Info(), `"ready":0,"leased":0,"delayed":0`) {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("queue %s was not empty: %s", w.Queue, w.Info())
		}
	}
}

// Info returns the queue's info. It retries until it gets an answer.
func (w *Worker) Info() string {
	w.Helper()
	reply, _ := w.Repeat(nats.NewMsg("pq." + w.Queue + ".info"))
	return string(reply.Data)
}

// Close closes the worker's connection.
func (w *Worker) Close() { w.nc.Close() }

// IsAck reports whether a reply acknowledges a push.
func IsAck(reply *nats.Msg) bool {
	var ack struct {
		Seq   uint64
		Error json.RawMessage
	}
	return json.Unmarshal(reply.Data, &ack) == nil && ack.Seq > 0 && ack.Error == nil
}

// IsItem reports whether a reply to a pop is an item.
func IsItem(reply *nats.Msg) bool { return reply.Header.Get("PQ-Id") != "" }
