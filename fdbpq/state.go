package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// State is the state of an item: StateReady, StateLeased or StateDelayed.
type State = layout.State

const (
	StateReady   = layout.StateReady
	StateLeased  = layout.StateLeased
	StateDelayed = layout.StateDelayed
)

// MaxContent bounds the bytes of headers and payload of one item, so that they
// fit into one transaction together with the item's other rows.
const MaxContent = layout.MaxContent
