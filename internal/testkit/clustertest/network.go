package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Network connects members in memory. Broadcasts reach all members, the sender too, one
// after the other.
type Network struct {
	mu      sync.Mutex
	members map[*listener]bool
}

type listener struct {
	name   string
	hear   func([]byte)
	answer func([]byte) []byte
	calls  sync.WaitGroup
}

var _ cluster.Members = (*Network)(nil)

// NewNetwork returns a network without members.
func NewNetwork() *Network { return &Network{members: make(map[*listener]bool)} }

// Listen implements cluster.Members.
func (n *Network) Listen(name string, hear func([]byte), answer func([]byte) []byte) (func(), error) {
	l := &listener{name: name, hear: hear, answer: answer}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members[l] = true
	return func() {
		n.mu.Lock()
		delete(n.members, l)
		n.mu.Unlock()
		l.calls.Wait()
	}, nil
}

// listeners returns the members with a name, or all members. The caller ends a call of each.
func (n *Network) listeners(name string) []*listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*listener
	for l := range n.members {
		if name == "" || l.name == name {
			l.calls.Add(1)
			found = append(found, l)
		}
	}
	return found
}

// Broadcast implements cluster.Members.
func (n *Network) Broadcast(message []byte) error {
	for _, l := range n.listeners("") {
		go func() {
			defer l.calls.Done()
			l.hear(bytes.Clone(message))
		}()
	}
	return nil
}

// Ask implements cluster.Members.
func (n *Network) Ask(ctx context.Context, member string, request []byte) ([]byte, error) {
	found := n.listeners(member)
	if len(found) == 0 {
		return nil, fmt.Errorf("no member is called %q", member)
	}
	replies := make(chan []byte, len(found))
	for _, l := range found {
		go func() {
			defer l.calls.Done()
			replies <- l.answer(bytes.Clone(request))
		}()
	}
	select {
	case reply := <-replies:
		return reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// MaxMessage implements cluster.Members.
func (n *Network) MaxMessage() int { return 1 << 20 }
