package main

import (
	"errors"
)

// many is how many items an operation of these verbs has: in one message, command or
// statement, or one after another before the first answer.
const many = 100

// manyClients are how many clients send them. With 256 of them pqd would refuse what is too
// much in flight.
const manyClients = 64

const (
	verbPushMany  = "push of 100"
	verbPopMany   = "pop of 100"
	verbLeaseMany = "lease+ack of 100"
)

var manyVerbs = []string{verbPushMany, verbPopMany, verbLeaseMany}

// itemsOf is how many items an operation has.
func itemsOf(verb string) int {
	switch verb {
	case verbPushMany, verbPopMany, verbLeaseMany:
		return many
	}
	return 1
}

// bundler is a client with forms of its own for many items. Others have fill and drain.
type bundler interface {
	pushMany(n int, items *payloads) error
	popMany(n int) error
}

// manyLeaser leases many items and acknowledges them. The answer to that has come.
type manyLeaser interface{ leaseMany(n int) error }

// operationOnMany is the operation of a verb with many items.
func operationOnMany(c client, verb string, items *payloads) func() error {
	push, pop := c.fill, c.drain
	if b, is := c.(bundler); is {
		push, pop = b.pushMany, b.popMany
	}
	switch verb {
	case verbPushMany:
		return func() error { return push(many, items) }
	case verbPopMany:
		return func() error { return pop(many) }
	}
	if l, is := c.(manyLeaser); is {
		return func() error { return l.leaseMany(many) }
	}
	return func() error { return errNoSuchVerb }
}

// manySteps leave as many items as they found, and follow those of one item.
func (p *plan) manySteps(sys *system) []step {
	if !sys.can(verbPushMany) {
		return nil
	}
	long := slow * p.phase
	steps := []step{{Verb: verbPushMany, Limit: p.phase / 5, Warm: true}, {Verb: verbPopMany, Share: 1, Limit: long, Warm: true},
		{Verb: verbPushMany, Limit: p.phase}, {Verb: verbPopMany, Share: 1, Limit: long}}
	if sys.can(verbLeaseMany) {
		steps = append(steps, step{Verb: verbPushMany, Limit: p.phase}, step{Verb: verbLeaseMany, Share: 1, Limit: long})
	}
	return steps
}

var errShort = errors.New("fewer items than were asked for")
