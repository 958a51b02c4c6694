package receiver

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// arrivals are the messages that the server has sent and the bridge has not handled yet, in the order in which they
// arrived. All subscriptions share them. With callbacks of nats.go each subscription would have a goroutine of its
// own, and since the server sends a settlement to any subscription that matches, a settlement could overtake an
// earlier one.
//
// nats.go drops a message when the channel is full. So one goroutine only moves messages from the channel to lines,
// and another one handles them.
type arrivals struct {
	handle func(*nats.Msg)
	log    *slog.Logger
	came   chan *nats.Msg
	end    *nats.Msg // the last one
	ended  bool      // of the goroutine that handles messages

	tenant func(subject string) string         // "": none; nil: there are no tenants
	refuse func(tenant, subject, reply string) // unread
	floods *Floods

	count, bytes atomic.Int64 // of the messages not handled yet

	mu       sync.Mutex
	some     sync.Cond
	lines    lines
	marks    map[*nats.Msg]*mark
	warned   map[string]time.Time // about a tenant's flood
	dropping bool
}

// mark is a function to call when all messages before it are handled.
type mark struct {
	do    func()
	lines int // that have not reached it yet
}

// pendingBytes bounds the messages that have arrived and were not handled yet. A
// message beyond the bound is dropped. The receiver sheds load long before: handling
// a message never blocks, and refuses it under overload.
const pendingBytes = 256 << 20

const (
	// arrivalsRoom is the length of the channel: some tens of milliseconds at the
	// highest rate at which nats.go receives messages.
	arrivalsRoom = 1 << 16

	// arrivalsStep is how many messages move to the lines at a time, arrivalsKept the
	// longest line whose memory is used again.
	arrivalsStep = 256
	arrivalsKept = 4096

	// floodLog is the shortest time between two log lines about the flood of a tenant.
	floodLog = time.Minute
)

// start handles messages until stop, one after the other. The handler must not block.
func (a *arrivals) start(handle func(*nats.Msg), log *slog.Logger) {
	a.handle, a.log = handle, log
	a.came = make(chan *nats.Msg, arrivalsRoom)
	a.end = new(nats.Msg)
	a.marks = make(map[*nats.Msg]*mark)
	a.some.L = &a.mu
	if count := a.countHeaders; a.tenant != nil {
		a.floods.count(&count)
	}
	go a.collect()
	go a.run()
}

// stop ends after the messages that have arrived. Later ones are dropped.
func (a *arrivals) stop() {
	a.mu.Lock()
	a.marks[a.end] = &mark{do: func() { a.ended = true }}
	a.mu.Unlock()
	a.came <- a.end
}

// pending is the number and size of the messages not handled yet.
func (a *arrivals) pending() (messages, bytes int) {
	return int(a.count.Load()), int(a.bytes.Load())
}

// wait returns when all messages that have arrived so far are handled.
func (a *arrivals) wait(ctx context.Context) error {
	m, done := new(nats.Msg), make(chan struct{})
	a.mu.Lock()
	a.marks[m] = &mark{do: func() { close(done) }}
	a.mu.Unlock()
	select {
	case a.came <- m:
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.marks, m) // nothing passes it
		a.mu.Unlock()
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect moves messages from the channel to the lines.
func (a *arrivals) collect() {
	var refused []*nats.Msg
	for m := range a.came {
		a.mu.Lock()
		for n := 1; ; n++ {
			if !a.add(m) {
				refused = append(refused, m)
			}
			if m == a.end || n == arrivalsStep || len(a.came) == 0 {
				break
			}
			m = <-a.came // the channel has no other reader
		}
		a.tell()
		a.some.Signal()
		a.mu.Unlock()
		for _, m := range refused {
			a.refuse(a.tenant(m.Subject), m.Subject, m.Reply)
		}
		clear(refused)
		refused = refused[:0]
		if m == a.end {
			return
		}
	}
}

// add adds a message to its line. It reports false if the message has to be refused unread.
func (a *arrivals) add(m *nats.Msg) bool {
	if m.Sub == nil { // a mark has none
		a.marks[m].lines = a.lines.mark(m)
		return true
	}
	size := m.Size()
	if a.bytes.Load()+int64(size) > pendingBytes {
		if !a.dropping {
			a.dropping = true
			a.log.Error("dropped requests: more arrive than this bridge reads", "subject", m.Sub.Subject, "error", nats.ErrSlowConsumer)
		}
		return true
	}
	a.dropping = false
	tenant := ""
	if a.tenant != nil {
		tenant = a.tenant(m.Subject)
	}
	room, begins := a.lines.add(m, tenant, size)
	if begins {
		a.warn(tenant)
	}
	if !room {
		return false
	}
	a.count.Add(1)
	a.bytes.Add(int64(size))
	return true
}

// flood marks a tenant as flooding the bridge.
func (a *arrivals) flood(tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines.flood(tenant) {
		a.warn(tenant)
	}
	a.tell()
}

// countHeaders counts the lines of headers of a message that arrives next.
func (a *arrivals) countHeaders(subject string, lines int) {
	tenant := a.tenant(subject)
	if tenant == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines.count(tenant, lines) {
		a.warn(tenant)
	}
	a.tell()
}

// warn logs that a tenant floods the bridge.
func (a *arrivals) warn(tenant string) {
	now := time.Now()
	maps.DeleteFunc(a.warned, func(_ string, at time.Time) bool { return now.Sub(at) >= floodLog })
	if _, warned := a.warned[tenant]; warned {
		return
	}
	if a.warned == nil {
		a.warned = make(map[string]time.Time)
	}
	a.warned[tenant] = now
	a.log.Warn("a tenant floods this bridge with messages: for moments all of them are refused unread, settlements too; pq_tenant_unread_total counts them", "tenant", tenant)
}

// tell tells the connection whether a tenant floods the bridge.
func (a *arrivals) tell() {
	if a.floods == nil {
		return
	}
	if flood := len(a.lines.flooding) > 0; flood != a.floods.Any() {
		if flood {
			refuse := a.refuseFlood
			a.floods.tell(&refuse)
		} else {
			a.floods.tell(nil)
		}
	}
}

// refuseFlood refuses a message, before it arrives, if its tenant floods.
func (a *arrivals) refuseFlood(subject, reply string) bool {
	tenant := a.tenant(subject)
	a.mu.Lock()
	refused := a.lines.refuses(tenant)
	a.tell()
	a.mu.Unlock()
	if refused {
		a.refuse(tenant, subject, reply)
	}
	return refused
}

// run handles the messages in the lines.
func (a *arrivals) run() {
	var batch []*nats.Msg
	for !a.ended {
		batch = a.next(batch)
		for i, m := range batch {
			batch[i] = nil
			if m.Sub == nil {
				a.passed(m)
				continue
			}
			size := int64(m.Size())
			a.handle(m)
			a.count.Add(-1)
			a.bytes.Add(-size)
		}
	}
	a.floods.tell(nil)
	a.floods.count(nil)
}

// next returns messages, and uses the memory of the earlier ones for later ones.
func (a *arrivals) next(used []*nats.Msg) []*nats.Msg {
	if cap(used) > arrivalsKept {
		used = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.lines.ready) == 0 {
		a.some.Wait()
	}
	batch := a.lines.take(used)
	a.tell()
	return batch
}

// passed calls the function of a mark, when it was passed in all lines.
func (a *arrivals) passed(m *nats.Msg) {
	a.mu.Lock()
	of := a.marks[m]
	of.lines--
	over := of.lines == 0
	if over {
		delete(a.marks, m)
	}
	a.mu.Unlock()
	if over {
		of.do()
	}
}
