package bridge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// forever is as long as a pop may wait. A test that expects an answer waits for Patience.
var forever = protocol.MaxWait.String()

// client talks to a bridge as any program does.
type client struct {
	testing.TB
	*nats.Conn
	env *testenv.Bridged
}

// soon has a client connect again as soon as its server is back.
var soon = []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1)}

// dial connects to a remote as a bridge does for its sources, and again as soon as the remote is back.
func dial(url string, options []nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, slices.Concat(soon, options)...)
}

// serve starts a bridge and connects to it. With options the bridge is one of several
// that share the store, unless the options say otherwise.
func serve(t testing.TB, options ...bridge.Options) *client {
	t.Helper()
	env := testenv.Bridge(t, chosen(options))
	return &client{TB: t, Conn: env.NATS.Connect(t, soon...), env: env}
}

// chosen returns the options of a bridge: pqd's, if none are given.
func chosen(options []bridge.Options) bridge.Options {
	o := bridge.Options{Exclusive: testenv.Engines()[0].Exclusive}
	if len(options) > 0 {
		o = options[0]
	}
	return bridge.Told(bridge.Paced(o))
}

// another returns a client on a connection of its own.
func (c *client) another() *client {
	return &client{TB: c.TB, Conn: c.env.NATS.Connect(c.TB, soon...), env: c.env}
}

// in returns the client for a test within its test.
func (c *client) in(t testing.TB) *client {
	return &client{TB: t, Conn: c.Conn, env: c.env}
}

// h makes headers of pairs.
func h(pairs ...string) nats.Header {
	header := make(nats.Header)
	for i := 0; i < len(pairs); i += 2 {
		header.Add(pairs[i], pairs[i+1])
	}
	return header
}

// ask sends a request the way programs do, and returns the answer.
func (c *client) ask(subject, body string, header ...string) *nats.Msg {
	c.Helper()
	return c.askMsg(&nats.Msg{Subject: subject, Data: []byte(body), Header: h(header...)})
}

func (c *client) askMsg(m *nats.Msg) *nats.Msg {
	c.Helper()
	answer, err := c.RequestMsg(m, testenv.Patience())
	if err != nil {
		c.Fatalf("%s: %v", m.Subject, err)
	}
	return answer
}

// raw sends a request and returns the answer even when it is a 503.
func (c *client) raw(subject, body string, header ...string) *nats.Msg {
	c.Helper()
	return c.next(c.send(subject, body, header...))
}

// answers is where the answers to requests arrive, 503s included.
type answers struct {
	inbox string
	came  chan *nats.Msg
}

// listen has room for the answers to a flood of requests.
func (c *client) listen() answers {
	c.Helper()
	return c.hearUpTo(1<<16, c.NewInbox())
}

func (c *client) hear(subject string) answers { return c.hearUpTo(1<<12, subject) }

// hearUpTo has room for n messages that are not read yet. NATS drops those beyond them.
func (c *client) hearUpTo(n int, subject string) answers {
	c.Helper()
	a := answers{subject, make(chan *nats.Msg, n)}
	if _, err := c.ChanSubscribe(subject, a.came); err != nil {
		c.Fatal(err)
	}
	return a
}

// send sends a request and returns where its answers arrive.
func (c *client) send(subject, body string, header ...string) answers {
	c.Helper()
	to := c.hear(c.NewInbox())
	if err := c.PublishMsg(&nats.Msg{Subject: subject, Reply: to.inbox, Data: []byte(body), Header: h(header...)}); err != nil {
		c.Fatalf("%s: %v", subject, err)
	}
	return to
}

// waitInLine has n pops of the queue jobs wait, and returns where their answers arrive.
// The reply subject of each ends with its number.
func (c *client) waitInLine(n int) answers {
	c.Helper()
	inbox := c.NewInbox()
	all := c.hear(inbox + ".*")
	for i := range n {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: fmt.Sprint(inbox, ".", i), Header: h("PQ-Wait", "1h")}
		if err := c.PublishMsg(m); err != nil {
			c.Fatal(err)
		}
	}
	c.waiting("jobs", n)
	return all
}

// next returns the next answer.
func (c *client) next(from answers) *nats.Msg {
	c.Helper()
	select {
	case m := <-from.came:
		return m
	case <-testenv.Late():
		patience.Fail(c, "no answer")
		return nil
	}
}

// pubAck is the answer to a push.
type pubAck struct {
	Type      string `json:"type"`
	Stream    string `json:"stream"`
	Seq       int64  `json:"seq"`
	Duplicate bool   `json:"duplicate"`
	ID        string `json:"id"`
	Priority  int64  `json:"priority"`
	Evicted   bool   `json:"evicted"`
	Error     *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// push pushes an item and returns its acknowledgement.
func (c *client) push(subject, body string, header ...string) pubAck {
	c.Helper()
	return c.acknowledged(c.ask(subject, body, header...))
}

func (c *client) acknowledged(m *nats.Msg) pubAck {
	c.Helper()
	var ack pubAck
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		c.Fatalf("acknowledgement %q, %v: %v", m.Data, m.Header, err)
	}
	if ack.Error != nil {
		c.Fatalf("push failed: %+v", *ack.Error)
	}
	return ack
}

// pop pops one item, and fails the test if there is none.
func (c *client) pop(subject, body string, header ...string) *nats.Msg {
	c.Helper()
	m := c.ask(subject, body, header...)
	if m.Header.Get("PQ-Id") == "" {
		c.Fatalf("%s: no item but %q, %v", subject, m.Data, m.Header)
	}
	return m
}

// refused checks that an answer is an error with this code.
func (c *client) refused(m *nats.Msg, code int, reason ...string) *nats.Msg {
	c.Helper()
	if got := m.Header.Get("Nats-Service-Error-Code"); got != fmt.Sprint(code) {
		c.Fatalf("answer %q, %v: want error %d", m.Data, m.Header, code)
	}
	if m.Header.Get("Nats-Service-Error") == "" {
		c.Errorf("error %d without a text", code)
	}
	if len(reason) > 0 && m.Header.Get("PQ-Reason") != reason[0] {
		c.Errorf("answer %v: want PQ-Reason %s", m.Header, reason[0])
	}
	return m
}

// batch gathers the answers to a batch, up to its end.
func (c *client) batch(sub answers) (items []*nats.Msg) {
	c.Helper()
	for {
		m := c.next(sub)
		if m.Header.Get("PQ-Id") == "" {
			if m.Header.Get("Status") != "204" || m.Header.Get("Description") != "EOB" || len(m.Data) > 0 {
				c.Fatalf("the batch ended with %q, %v", m.Data, m.Header)
			}
			return items
		}
		items = append(items, m)
	}
}

// object asks for JSON.
func object[T any](c *client, subject, body string) T {
	c.Helper()
	var v T
	m := c.ask(subject, body)
	if err := json.Unmarshal(m.Data, &v); err != nil {
		c.Fatalf("%s: %q, %v: %v", subject, m.Data, m.Header, err)
	}
	return v
}

// info asks for the info of a queue.
type info struct {
	Queue                                  string
	Ready, Leased, Delayed, Waiting, Bytes int64
	Held, Remembered, Results              int64
	ResultsBytes                           int64 `json:"results_bytes"`
	KeysOwing                              int64 `json:"keys_owing"`
	Oldest                                 float64
	Rates                                  map[string]float64
	Paused                                 bool
	Config                                 map[string]any
}

func (c *client) info(queue string) info {
	c.Helper()
	return object[info](c, "pq."+queue+".info", "")
}
