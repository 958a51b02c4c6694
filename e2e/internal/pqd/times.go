package pqd

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// Lasting is longer than tests last, and shorter than clocks are wrong.
const Lasting = 10 * time.Minute

// Times are promises of queues about time, for a short one and for Lasting. Each has a queue of its own.
type Times struct {
	*testing.T
	nc    *nats.Conn
	name  string
	short time.Duration
	began time.Time // none of them began earlier, and all before begun
	begun time.Time

	held, result string // the ack subject of a lease, and the id of an item that has ended
}

// BeginTimes begins them, in queues whose names begin with one.
func BeginTimes(t *testing.T, nc *nats.Conn, name string, short time.Duration) *Times {
	t.Helper()
	p := &Times{T: t, nc: nc, name: name, short: short, began: time.Now()}
	p.push("held")
	p.held = Lease(t, nc, name+"-held", Lasting.String()).Reply
	p.push("lost")
	Lease(t, nc, name+"-lost", short.String())
	p.push("later", "PQ-Delay", Lasting.String())
	p.push("soon", "PQ-Delay", short.String())
	p.push("lasting", "PQ-TTL", Lasting.String())
	p.push("brief", "PQ-TTL", short.String())
	p.ask("known", "admin.config", fmt.Sprintf(`{"dedup_window":%q}`, Lasting))
	p.push("known", "Nats-Msg-Id", "a")
	p.ask("forgotten", "admin.config", fmt.Sprintf(`{"dedup_window":%q}`, short))
	p.push("forgotten", "Nats-Msg-Id", "a")
	p.result = p.push("done", "PQ-Result-TTL", Lasting.String())
	Pop(t, nc, name+"-done", "min")
	p.begun = time.Now()
	return p
}

func (p *Times) subject(queue, verb string) string { return "pq." + p.name + "-" + queue + "." + verb }

func (p *Times) push(queue string, headers ...string) string {
	p.Helper()
	return PushMsg(p.T, p.nc, p.subject(queue, "push.1"), queue, headers...)
}

// ask asks again while nobody serves, and nothing was done.
func (p *Times) ask(queue, verb, body string, headers ...string) *nats.Msg {
	p.Helper()
	return p.askAt(p.subject(queue, verb), body, headers...)
}

func (p *Times) askAt(subject, body string, headers ...string) (answer *nats.Msg) {
	p.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: make(nats.Header)}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	for late := testenv.BeginWait(); ; {
		var err error
		answer, err = p.nc.RequestMsg(m, testenv.Patience())
		away := errors.Is(err, nats.ErrNoResponders) || err == nil && answer.Header.Get("Nats-Service-Error-Code") == "503"
		switch {
		case away && !late.Over():
			continue
		case err != nil:
			p.Fatalf("%s: %v", subject, err)
		}
		return answer
	}
}

// repeats reports whether a push is one of an id that the queue knows.
func (p *Times) repeats(queue string) bool {
	p.Helper()
	var pushed struct{ Duplicate bool }
	answer := p.ask(queue, "push.1", queue, "Nats-Msg-Id", "a")
	if err := json.Unmarshal(answer.Data, &pushed); err != nil || !testenv.IsAck(answer) {
		p.Fatalf("%s %v", answer.Data, answer.Header)
	}
	return pushed.Duplicate
}

func (p *Times) expectEmpty(queue string) {
	p.Helper()
	if answer := p.ask(queue, "pop.min", ""); answer.Header.Get("Status") != "404" {
		p.Errorf("%s after %s: %q %v", queue, time.Since(p.began), answer.Data, answer.Header)
	}
}

// Last judges what lasts. The lease begins afresh, as it does only while it is in force.
func (p *Times) Last() {
	p.Helper()
	p.expectEmpty("held")
	if answer := p.askAt(p.held, "+WPI"); answer.Header.Get("Nats-Service-Error-Code") != "" {
		p.Errorf("a lease of %s is lost: %v", Lasting, answer.Header)
	}
	p.expectEmpty("later")
	if answer := p.ask("lasting", "peek.min", ""); string(answer.Data) != "lasting" {
		p.Errorf("an item with a TTL of %s is gone: %v", Lasting, answer.Header)
	}
	if !p.repeats("known") {
		p.Errorf("an id is forgotten before %s", Lasting)
	}
	if answer := p.ask("done", "result."+p.result, ""); answer.Header.Get("PQ-Outcome") != "done" {
		p.Errorf("a result of %s is gone: %v", Lasting, answer.Header)
	}
}

// Go judges what goes: not before its time.
func (p *Times) Go() {
	p.Helper()
	if answer := p.ask("brief", "peek.min", ""); string(answer.Data) != "brief" && time.Since(p.began) < p.short {
		p.Errorf("an item with a TTL of %s is gone after %s: %v", p.short, time.Since(p.began), answer.Header)
	}
	if !p.repeats("forgotten") && time.Since(p.began) < p.short {
		p.Errorf("an id is forgotten before %s", p.short)
	}
}

// Come judges what comes, at its time or somewhat later, and that the rest has gone by then.
func (p *Times) Come(late time.Duration) {
	p.Helper()
	for _, queue := range []string{"lost", "soon"} {
		answer := p.ask(queue, "pop.min", "", "PQ-Wait", (p.short + 20*time.Second).String())
		if passed := time.Since(p.began); string(answer.Data) != queue || passed < p.short || passed > p.short+late {
			p.Errorf("%s: %q after %s, expected it after %s: %v", queue, answer.Data, passed, p.short, answer.Header)
		}
	}
	testenv.Await(p.T, "an item is gone", func() bool { return p.ask("brief", "peek.min", "").Header.Get("Status") == "404" })
	testenv.Await(p.T, "an id is forgotten", func() bool { return !p.repeats("forgotten") })
	if passed := time.Since(p.begun); passed > p.short+late {
		p.Errorf("an item with a TTL of %s and an id that is to be known for as long are gone after %s", p.short, passed)
	}
}
