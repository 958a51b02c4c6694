package gateway

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/subjects"
)

// access shows the rights of the caller.
func access(in *input) (*answer, *refusal) {
	may := "read"
	if in.gateway.changes {
		may = "admin"
	}
	return answerJSON(struct {
		Access string `json:"access"`
		Prefix string `json:"prefix"`
		Tenant string `json:"tenant,omitempty"`
	}{may, in.caller.grammar.Prefix(), in.caller.tenant})
}

// bridges lists the bridges of the prefix, as service discovery knows them.
func bridges(in *input) (*answer, *refusal) {
	answers, why := in.gateway.wire.Load().all(in.ctx, &nats.Msg{Subject: "$SRV.PING.pq"})
	if why != nil {
		return nil, why
	}
	type bridge struct {
		ID       string            `json:"id"`
		Version  string            `json:"version"`
		Started  time.Time         `json:"started"`
		Metadata map[string]string `json:"metadata"`
	}
	found := []bridge{}
	for _, m := range answers {
		var b bridge
		if err := json.Unmarshal(m.Data, &b); err != nil || b.Metadata["prefix"] != in.caller.grammar.Prefix() {
			continue // a bridge of another prefix, or none
		}
		found = append(found, b)
	}
	return answerJSON(map[string]any{"bridges": found})
}

// cluster returns the view that each pqd of a replicated store has of all nodes.
func cluster(in *input) (*answer, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.SysClusterStatus}, nil)
	if why != nil {
		return nil, why
	}
	answers, why := in.gateway.wire.Load().all(in.ctx, m)
	if why != nil {
		return nil, why
	}
	nodes := []json.RawMessage{}
	for _, m := range answers {
		if refused(m) == nil && json.Valid(m.Data) {
			nodes = append(nodes, m.Data)
		}
	}
	return answerJSON(map[string]any{"nodes": nodes})
}
