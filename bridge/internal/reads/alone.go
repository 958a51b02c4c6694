package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/subjects"
)

// alone refuses a request about a cluster where there is none.
type alone struct{ jsonQuery }

func NoCluster(subjects.Verb) desk.Work { return new(alone) }

func (a *alone) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "%s is for stores that several pqd keep together, with PQ_CLUSTER or PQ_STORE=jetstream:<name>: this one is not", a.Subject.Verb)
}

func (a *alone) Find(*View) error { return nil }
