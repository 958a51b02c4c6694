package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func Sys(v subjects.Verb) desk.Work {
	if v == subjects.SysList {
		return new(queues)
	}
	return new(system)
}

// system shows the bridge itself.
type system struct {
	jsonQuery
	history bool
}

func (s *system) Read(*codec.Wire) *failure.Failure {
	return codec.ReadFlags(s.Msg, s.Subject.Verb.String(), map[string]*bool{"history": &s.history})
}

func (s *system) Find(v *View) error {
	answer := v.System()
	answer.Limits.Payload = v.Limit.Payload()
	if tenant := s.Subject.Tenant; tenant != "" {
		// A tenant does not see the data of other tenants, or of the machine.
		answer.Prefix += "." + tenant
		answer.Store, answer.StoreID, answer.Damage, answer.Disk, answer.Cluster = "", "", nil, nil, nil
		answer.Tenant = shownTenant(tenant, v.Tenants.Of(tenant))
		return s.answerJSON(answer)
	}
	if s.history {
		answer.History = v.History(v.Stats.History())
	}
	return s.answerJSON(answer)
}

// shownTenant is a tenant's view of itself.
func shownTenant(name string, of *tenants.Tenant) *protocol.Tenant {
	has, may := of.Look()
	return &protocol.Tenant{
		Name: name, Queues: has.Queues, Items: has.Items, Bytes: has.Bytes, Charged: of.Charged(),
		Quotas: protocol.Quotas{Queues: may.Queues, Items: may.Items, Bytes: may.Bytes, Requests: may.Requests, Waiting: may.Waiting},
	}
}
