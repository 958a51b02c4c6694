package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// State is the state of an item.
type State string

const (
	StateReady   State = State(layout.StateReady)
	StateLeased  State = State(layout.StateLeased)
	StateDelayed State = State(layout.StateDelayed)
)

// MaxContent bounds the bytes of headers and payload of one item, so that they
// fit into one transaction together with the item's other rows.
const MaxContent = layout.MaxContent
