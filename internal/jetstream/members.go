package jetstream

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Members is a cluster.Members on NATS subjects.
type Members struct {
	nc   *nats.Conn
	root string
}

var _ cluster.Members = (*Members)(nil)

// NewMembers returns a member's access to the messages of the cluster that keeps a store. The connection belongs to
// the caller.
func NewMembers(nc *nats.Conn, store string) (*Members, error) {
	if err := CheckName(store); err != nil {
		return nil, err
	}
	return &Members{nc: nc, root: Root(store)}, nil
}

func (m *Members) all() string              { return m.root + ".all" }
func (m *Members) one(member string) string { return m.root + ".to." + member }

// Listen implements cluster.Members.
func (m *Members) Listen(name string, hear func([]byte), answer func([]byte) []byte) (func(), error) {
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("member %q: %w", name, err)
	}
	c := &calls{}
	heard, err := m.nc.Subscribe(m.all(), func(msg *nats.Msg) {
		c.do(func() { hear(msg.Data) })
	})
	if err != nil {
		return nil, fmt.Errorf("listen to other members: %w", err)
	}
	asked, err := m.nc.Subscribe(m.one(name), func(msg *nats.Msg) {
		// A reply that does not arrive is as good as none: the member asks again.
		c.do(func() { _ = msg.Respond(answer(msg.Data)) })
	})
	if err == nil {
		err = m.nc.Flush()
	}
	stop := func() {
		// An error says that the subscription has ended already.
		_ = heard.Unsubscribe()
		if asked != nil {
			_ = asked.Unsubscribe()
		}
		c.end()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("listen to other members: %w", err)
	}
	return stop, nil
}

// Broadcast implements cluster.Members.
func (m *Members) Broadcast(message []byte) error {
	return m.nc.Publish(m.all(), message)
}

// Ask implements cluster.Members.
func (m *Members) Ask(ctx context.Context, member string, request []byte) ([]byte, error) {
	reply, err := m.nc.RequestWithContext(ctx, m.one(member), request)
	if err != nil {
		return nil, fmt.Errorf("ask member %s: %w", member, err)
	}
	return reply.Data, nil
}

// MaxMessage implements cluster.Members.
func (m *Members) MaxMessage() int { return int(m.nc.MaxPayload()) - headerRoom }

// calls runs functions that must not run any more after end.
type calls struct {
	mu    sync.Mutex
	ended bool
	under sync.WaitGroup
}

func (c *calls) do(call func()) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.under.Add(1)
	c.mu.Unlock()
	defer c.under.Done()
	call()
}

func (c *calls) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.under.Wait()
}
