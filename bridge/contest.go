package bridge

import (
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// contests keep bridges that take from the same queue out of each other's way.
//
// All of them want the items at its end, so of transactions that run at the
// same time one commits and the others have run in vain. Bridges that have lost
// to somebody therefore line up: each says when it wants to take, takes when
// those who said so before it are done, with all requests that have arrived
// until then, and says when it is done. Nothing depends on what is said. Who is
// not heard is not waited for, who is not done in time is not waited for any
// longer, and who knows of no contest says nothing and waits for nobody.
type contests struct {
	bridge   *Bridge
	id       string
	patience time.Duration

	mu     sync.Mutex
	sub    *nats.Subscription // nil until something was lost
	queues map[string]*contest
}

// contest is what a bridge knows of others that take from a queue.
type contest struct {
	until time.Time     // over then
	line  []string      // ids of those who want to take, in the order heard
	turn  chan struct{} // closed when this bridge is the first in line; nil while it is not in line
}

const (
	// contestTime is how long a contest lasts after the last sign of another
	// bridge. Beginning one costs a transaction or two.
	contestTime = time.Second

	// contestPatience is how long the others are waited for. It is several times
	// what their transactions take, so it matters only when one has died.
	contestPatience = 50 * time.Millisecond

	// maxContests bounds the queues that bridges line up for.
	maxContests = 1024

	// maxContestants and maxContestWord bound what is remembered of what anybody
	// may say: bridges of one store are few, and their ids have 22 bytes.
	maxContestants = 256
	maxContestWord = 64
)

// What bridges say.
const (
	contestWant = '+'
	contestDone = '-'
)

func (c *contests) init(b *Bridge) {
	c.bridge, c.id, c.patience = b, nuid.Next(), contestPatience
	c.queues = make(map[string]*contest)
}

// subject is where bridges on this store talk about a queue. It is an inbox,
// because in those they may publish and listen.
func (c *contests) subject(queue string) string {
	return nats.InboxPrefix + c.bridge.store.ID() + ".take." + queue
}

// lost notes that a transaction ran in vain because of somebody else's.
func (c *contests) lost(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bridge.options.Exclusive || c.bridge.gate.closed() {
		return // it was no other bridge's, or does not matter any more
	}
	if c.sub == nil {
		sub, err := c.bridge.nc.Subscribe(c.subject("*"), c.hear)
		if err != nil {
			c.bridge.options.Logger.Debug("hear other bridges", "error", err)
			return
		}
		c.sub = sub
	}
	now := time.Now()
	if c.queues[queue] == nil {
		for name, over := range c.queues {
			if now.After(over.until) && over.turn == nil {
				delete(c.queues, name)
			}
		}
		if len(c.queues) >= maxContests {
			return
		}
		c.queues[queue] = &contest{}
	}
	c.queues[queue].until = now.Add(contestTime)
}

// hear takes notice of what another bridge says.
func (c *contests) hear(m *nats.Msg) {
	queue := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	if len(m.Data) < 2 || len(m.Data) > maxContestWord {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.queues[queue]
	if in == nil {
		return
	}
	in.until = time.Now().Add(contestTime)
	id := string(m.Data[1:])
	switch in.leave(id); m.Data[0] {
	case contestWant:
		if len(in.line) < maxContestants {
			in.line = append(in.line, id)
		}
	case contestDone:
		in.advance(c.id)
	}
}

func (in *contest) leave(id string) {
	for i := range in.line {
		if in.line[i] == id {
			in.line = append(in.line[:i], in.line[i+1:]...)
			return
		}
	}
}

// advance tells this bridge when it has become the first in line.
func (in *contest) advance(id string) {
	if in.turn != nil && (len(in.line) == 0 || in.line[0] == id) {
		select {
		case <-in.turn:
		default:
			close(in.turn)
		}
	}
}

// enter returns when it is this bridge's turn to take from a queue.
func (c *contests) enter(queue string) {
	turn := c.lineUp(queue)
	if turn == nil {
		return
	}
	c.say(queue, contestWant)
	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	select {
	case <-turn:
	case <-patience.C:
		c.pass(queue)
	}
}

// lineUp puts this bridge in the line; nil when there is none.
func (c *contests) lineUp(queue string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.queues[queue]
	if in == nil || time.Now().After(in.until) {
		delete(c.queues, queue)
		return nil
	}
	in.line = append(in.line, c.id)
	in.turn = make(chan struct{})
	in.advance(c.id)
	return in.turn
}

// pass goes past those who were in the line before, for they seem to have gone.
func (c *contests) pass(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := c.queues[queue]; in != nil {
		for len(in.line) > 0 && in.line[0] != c.id {
			in.line = in.line[1:]
		}
	}
}

// done gives the turn to the next bridge.
func (c *contests) done(queue string) {
	c.mu.Lock()
	in := c.queues[queue]
	waited := in != nil && in.turn != nil
	if waited {
		in.turn = nil
		in.leave(c.id)
	}
	c.mu.Unlock()
	if waited {
		c.say(queue, contestDone)
	}
}

// stop has the bridge hear no more of others.
func (c *contests) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sub != nil {
		c.bridge.silence(&c.sub)
	}
}

func (c *contests) say(queue string, what byte) {
	if err := c.bridge.nc.Publish(c.subject(queue), append([]byte{what}, c.id...)); err != nil {
		c.bridge.options.Logger.Debug("speak to other bridges", "error", err)
	}
}
