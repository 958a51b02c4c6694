package client_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// desk is a stand-in for a bridge. The test sees each request, and answers it when it likes.
type desk struct {
	*testenv.Server
	nc       *nats.Conn
	requests chan *nats.Msg
}

func openDesk(t *testing.T, changes ...func(*server.Options)) *desk {
	t.Helper()
	s := testenv.NATS(t, changes...)
	d := &desk{Server: s, requests: make(chan *nats.Msg, 10_000)}
	d.connect(t)
	return d
}

func (d *desk) connect(t *testing.T) {
	t.Helper()
	d.nc = d.Connect(t, nats.UserInfo("bridge", "b"))
	if _, err := d.nc.ChanSubscribe("pq.>", d.requests); err != nil {
		t.Fatal(err)
	}
	if err := d.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// client is a client that repeats nothing by itself during the test.
func (d *desk) client(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	c := newClient(t, d.Connect(t), opts...)
	c.AskAgainAfter(time.Hour)
	return c
}

// next is the next request.
func (d *desk) next(t *testing.T) *nats.Msg {
	t.Helper()
	return arrives(t, "a request", d.requests)
}

// nextBundle is the next request that is a bundle.
func (d *desk) nextBundle(t *testing.T) *nats.Msg {
	t.Helper()
	for {
		if m := d.next(t); m.Header.Get(protocol.HeaderBundle) != "" {
			return m
		}
	}
}

// quiet checks that nothing was sent that the test has not seen.
func (d *desk) quiet(t *testing.T, c *client.Client) {
	t.Helper()
	if err := c.Conn().Flush(); err != nil {
		t.Error(err)
	}
	if err := d.nc.Flush(); err != nil {
		t.Error(err)
	}
	for range len(d.requests) {
		m := <-d.requests
		t.Errorf("a request on %s that nobody expected: %v %q", m.Subject, m.Header, m.Data)
	}
}

// answer answers a request.
func (d *desk) answer(t *testing.T, m *nats.Msg, with *nats.Msg) {
	t.Helper()
	if err := m.RespondMsg(with); err != nil {
		t.Error(err)
	}
}

// frame is an item of a pushed message.
type frame struct {
	header  nats.Header
	payload string
}

// frames are the items of a message, one if it is no bundle.
func frames(t *testing.T, m *nats.Msg) (all []frame) {
	t.Helper()
	if m.Header.Get(protocol.HeaderBundle) == "" {
		return []frame{{m.Header, string(m.Data)}}
	}
	for rest := m.Data; len(rest) > 0; {
		headers, payload, after, err := protocol.NextFrame(rest)
		f := frame{make(nats.Header), string(payload)}
		for len(headers) > 0 && err == nil {
			var name, value string
			if name, value, headers, err = protocol.NextHeader(headers); err == nil {
				f.header.Add(name, value)
			}
		}
		if err != nil {
			t.Errorf("a bundle has %q: %v", rest, err)
			return all
		}
		all, rest = append(all, f), after
	}
	if n := m.Header.Get(protocol.HeaderBundle); n != strconv.Itoa(len(all)) {
		t.Errorf("a bundle of %s has %d items", n, len(all))
	}
	return all
}

// payloadsOf returns the payloads of the items of a message.
func payloadsOf(t *testing.T, m *nats.Msg) string {
	t.Helper()
	var all []string
	for _, f := range frames(t, m) {
		all = append(all, f.payload)
	}
	return strings.Join(all, " ")
}

// adds answers a message that all of its items were added, under their payloads as ids; an error in place of some.
func adds(t *testing.T, m *nats.Msg, but map[string]protocol.Error) *nats.Msg {
	t.Helper()
	var items []map[string]any
	for i, f := range frames(t, m) {
		item := map[string]any{"seq": i + 1, "id": f.payload, "priority": 0}
		if e, refused := but[f.payload]; refused {
			item = map[string]any{"error": e}
		}
		items = append(items, item)
	}
	answer := map[string]any{"type": "io.pq.v1.push_response", "stream": "jobs", "seq": 1, "items": items}
	if m.Header.Get(protocol.HeaderBundle) == "" {
		answer = items[0]
	}
	body, err := json.Marshal(answer)
	if err != nil {
		t.Error(err)
	}
	return &nats.Msg{Data: body}
}
