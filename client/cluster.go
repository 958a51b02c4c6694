package client

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Cluster describes the pqd that keep a store together.
type Cluster = protocol.Cluster

// Member is one pqd of a cluster.
type Member = protocol.Member

// Role is the role of a pqd in a cluster.
type Role = protocol.Role

// RoleActive is the role of the pqd that serves the store.
const RoleActive = protocol.RoleActive

// SteppedDown names the pqd that has handed over, and its successor.
type SteppedDown = protocol.SteppedDown

// Replaced names a node that was replaced, and the node in its place.
type Replaced = protocol.Replaced

// moreMembers is how long Cluster waits for a further answer after each one.
const moreMembers = 250 * time.Millisecond

// Cluster asks all pqd of the store for their state, and waits a moment for all answers. A member's own answer
// counts more than what others have heard of it. The first member is the active one if there is one.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysClusterStatus})
	if err != nil {
		return nil, err
	}
	answers := make(chan *nats.Msg, mostMembers)
	reply, stop := c.mailbox.receive(addressee{deliver: func(m *nats.Msg) {
		select {
		case answers <- m:
		default:
		}
	}})
	defer stop()
	if err := c.admitted(ctx, "cluster", ""); err != nil {
		return nil, err
	}
	if err := c.publish("cluster", "", &nats.Msg{Subject: subject, Reply: reply}); err != nil {
		return nil, err
	}
	var all []Cluster
	for {
		m, err := awaitMember(ctx, answers, len(all) > 0)
		switch {
		case m == nil && len(all) > 0:
			return merged(all), nil
		case err != nil:
			return nil, ended("cluster", "", 1, nil, err)
		}
		if refusal := answered(m, "cluster", ""); refusal != nil {
			return nil, refusal
		}
		var one Cluster
		if err := json.Unmarshal(m.Data, &one); err != nil || len(one.Members) == 0 {
			return nil, unreadable("cluster", "", m.Data, err)
		}
		if all = append(all, one); complete(all) {
			return merged(all), nil
		}
	}
}

// mostMembers bounds the answers that wait to be read.
const mostMembers = 64

// awaitMember waits for the next answer: for the first one until ctx ends.
func awaitMember(ctx context.Context, answers <-chan *nats.Msg, more bool) (*nats.Msg, error) {
	if more {
		return await(ctx, answers, nil, moreMembers)
	}
	return await(ctx, answers, nil, forever)
}

// complete reports whether every member that an answer names has answered.
func complete(all []Cluster) bool {
	for _, c := range all {
		for _, m := range c.Members {
			if m.Role != protocol.RoleSilent && !slices.ContainsFunc(all, func(o Cluster) bool { return o.Node == m.Node }) {
				return false
			}
		}
	}
	return true
}

// merged combines all answers.
func merged(all []Cluster) *Cluster {
	whole := all[0]
	whole.Members = nil
	var heard []Member
	for _, c := range all {
		whole.Members = append(whole.Members, c.Members[0])
		heard = append(heard, c.Members[1:]...)
		if c.Members[0].Role == protocol.RoleActive || c.Log.Last > whole.Log.Last {
			whole.Log = c.Log
		}
	}
	slices.SortStableFunc(heard, func(a, b Member) int { return cmp.Compare(a.Heard, b.Heard) })
	for _, m := range heard {
		if !slices.ContainsFunc(whole.Members, func(o Member) bool { return o.Node == m.Node }) {
			whole.Members = append(whole.Members, m)
		}
	}
	newest := whole.Log.Last
	for _, m := range whole.Members {
		newest = max(newest, m.Entry)
	}
	for i := range whole.Members {
		whole.Members[i].Lag = newest - whole.Members[i].Entry
	}
	slices.SortFunc(whole.Members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Node, b.Node))
	})
	return &whole
}

// rank is 0 for the member that comes first.
func rank(m Member) int {
	if m.Role == protocol.RoleActive {
		return 0
	}
	return 1
}

// StepDown makes the active pqd of a cluster hand over to the node of this name, or to any follower if node is
// empty. It answers the requests in flight first.
func (c *Client) StepDown(ctx context.Context, node string) (*SteppedDown, error) {
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysClusterStepDown})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(protocol.StepDown{Node: node})
	if err != nil {
		return nil, err
	}
	done := new(SteppedDown)
	return done, c.ask(ctx, &call{op: "step down", subject: subject, body: body}, done)
}

// Replace puts a running node in the place of a node that is lost for good. It returns when the log has a replica
// on the new node, which may still catch up then.
func (c *Client) Replace(ctx context.Context, lost, by string) (*Replaced, error) {
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysClusterReplace})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(protocol.Replace{Old: lost, New: by})
	if err != nil {
		return nil, err
	}
	done := new(Replaced)
	return done, c.ask(ctx, &call{op: "replace node", subject: subject, body: body}, done)
}
