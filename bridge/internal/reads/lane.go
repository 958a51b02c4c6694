package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/protocol"
)

// Options are what queries read beside the store.
type Options struct {
	Explainer *explain.Explainer
	Waiting   func(queue string) int                              // how many pops wait at a queue
	Taking    func(inside func(queue string) bool) map[string]int // the queues, of some, at which pops wait to take items, with their numbers
	System    func() protocol.System                              // the bridge, except the size of a payload
	History   func(*protocol.History) *protocol.History           // adds the bridge to a history
}

// Lane has the parts that queries need.
type Lane struct {
	*desk.Lane
	Options
	header codec.HeaderWriter // of an answer
}
