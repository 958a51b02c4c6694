package gateway

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// item is an item of an answer.
type item struct {
	protocol.Item
	Held    bool   `json:"held,omitempty"`    // PQ-Held
	Pending *int64 `json:"pending,omitempty"` // PQ-Num-Pending
}

// readItem reads an item that a bridge has answered.
func readItem(queue string, m *nats.Msg) (*item, *refusal) {
	i := &item{Item: protocol.Item{Queue: queue}}
	own := make(map[string][]string)
	var err error
	for name, values := range m.Header {
		if name != protocol.HeaderTimeStamp && !strings.HasPrefix(name, protocol.HeaderPrefix) {
			own[name] = values
			continue
		}
		if readErr := i.readHeader(name, m.Header.Get(name)); readErr != nil {
			err = readErr
		}
	}
	if err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	i.SetHeaders(own)
	i.SetPayload(m.Data)
	i.Size = 0 // of lists alone
	return i, nil
}

func (i *item) readHeader(name, value string) (err error) {
	if to := fieldOf(i, name); to != nil {
		return protocol.ReadValue(to, value)
	}
	switch name {
	case protocol.HeaderNumPending:
		i.Pending = new(int64)
		err = protocol.ReadValue(i.Pending, value)
	case protocol.HeaderHeld:
		i.Held = value == "true"
	case protocol.HeaderExplain:
		i.Explain = new(protocol.Explain)
		err = json.Unmarshal([]byte(value), i.Explain)
	case protocol.HeaderAttempts:
		err = i.readAttempts(value)
	default:
		i.Source, err = protocol.ReadItemSource(i.Source, name, value)
	}
	return err // other ones are a later version's
}

// readAttempts reads all attempts, or the number of the last one.
func (i *item) readAttempts(value string) (err error) {
	if !strings.HasPrefix(value, "[") {
		i.Attempts, err = strconv.ParseInt(value, 10, 64)
		return err
	}
	if err := json.Unmarshal([]byte(value), &i.LastAttempts); err != nil {
		return err
	}
	if n := len(i.LastAttempts); n > 0 {
		i.Attempts = i.LastAttempts[n-1].N
	}
	return nil
}

// deathOf is the part of an item that says how it became a dead letter.
func deathOf(i *item) *protocol.Death {
	if i.Dead == nil {
		i.Dead = new(protocol.Death)
	}
	return i.Dead
}
