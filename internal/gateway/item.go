package gateway

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

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
	switch name {
	case protocol.HeaderID:
		i.ID = value
	case protocol.HeaderKey:
		i.Key = value
	case protocol.HeaderWaitsFor:
		i.WaitsFor = value
	case protocol.HeaderKeyAhead:
		i.KeyAhead, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderPriority:
		i.Priority, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderDeliveries:
		i.Deliveries, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderFailures:
		i.Failures, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderInterruptions:
		i.Interruptions, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderReturns:
		i.Returns, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderTimeStamp:
		i.Pushed, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderNumPending:
		var pending int64
		pending, err = strconv.ParseInt(value, 10, 64)
		i.Pending = &pending
	case protocol.HeaderState:
		i.State = protocol.State(value)
	case protocol.HeaderHeld:
		i.Held = value == "true"
	case protocol.HeaderExplain:
		i.Explain = new(protocol.Explain)
		err = json.Unmarshal([]byte(value), i.Explain)
	case protocol.HeaderNotBefore:
		i.Due, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderExpires:
		i.Expires, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderAck:
		i.Ack = value
	case protocol.HeaderLeaseExpires:
		i.LeaseExpires, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderFence:
		i.Fence, err = strconv.ParseUint(value, 10, 64)
	case protocol.HeaderKeyFence:
		i.KeyFence, err = strconv.ParseUint(value, 10, 64)
	case protocol.HeaderBackoff:
		i.Backoff = value
	case protocol.HeaderHolder:
		i.Holder = value
	case protocol.HeaderAttempts:
		err = i.readAttempts(value)
	case protocol.HeaderSchedule:
		i.Schedule = value
	case protocol.HeaderScheduledAt:
		i.ScheduledAt, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderUnique:
		i.Unique = value
	case protocol.HeaderUniqueUntil:
		i.UniqueUntil = value
	case protocol.HeaderDeadReason:
		i.death().Reason = value
	case protocol.HeaderDeadAt:
		i.death().At, err = time.Parse(time.RFC3339Nano, value)
	case protocol.HeaderDeadNumber:
		i.death().Deliveries, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderDeadInterruptions:
		i.death().Interruptions, err = strconv.ParseInt(value, 10, 64)
	case protocol.HeaderOrigin:
		i.death().Origin = value
	case protocol.HeaderOriginID:
		i.death().OriginID = value
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

func (i *item) death() *protocol.Death {
	if i.Dead == nil {
		i.Dead = new(protocol.Death)
	}
	return i.Dead
}
