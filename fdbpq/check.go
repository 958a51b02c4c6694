package fdbpq

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Check reads the whole store and returns a sentence for each violation of an
// invariant, up to a hundred. Nothing may write to the store meanwhile: a
// concurrent write looks like damage. Packages schedule, link and source check their own
// rows.
//
// Of a queue that only a later program serves it checks no row, and says so.
//
// The invariants:
//   - every row can be parsed;
//   - an item has exactly the rows that writeItem writes for it, timers included;
//   - counters equal the number of rows that they count, and the counter of overhead is no lower than the items' sum;
//   - remembered ids have exactly the timers they need;
//   - a remembered pop has all of its items, and was repeated if it has none;
//   - large payloads are complete and belong to an item, and large results to a result;
//   - a result has a row in the order in which results are forgotten, and a timer that forgets it;
//   - no two items have one unique value;
//   - pops find a key that may be leased;
//   - settings of keys are counted, and keys that take turns have a row in their order;
//   - the next fence of a key is higher than the fences of its items, and timers forget old fences;
//   - a held item has a holder, whose package knows what it holds;
//   - no item has a count beyond the highest one assigned.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	w := newWalk(s)
	err := s.inside.DB.View(ctx, func(r kv.Reader) error {
		written, err := r.Get(layout.Row(layout.SpaceTime))
		w.known.passed = int64(kv.DecodeInteger(written)) / keyFenceUnit
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	for _, kind := range layout.RowKinds {
		check := rowChecks[kind.Space]
		if check == nil {
			continue
		}
		row := func(pair kv.Pair) error { return w.row(kind, check, pair) }
		if err := w.Visit(ctx, s.inside.DB, kind.Space, row); err != nil {
			return nil, fmt.Errorf("check: %w", err)
		}
	}
	w.balance()
	return w.Problems, nil
}

// rowChecks has the check of each row of a space. Any row is right in a space without a check.
var rowChecks = map[string]rowCheck{
	layout.SpaceState:     foundState,
	layout.SpaceHigh:      foundHighest,
	layout.SpaceReady:     foundItem,
	layout.SpaceKeyed:     foundItem,
	layout.SpaceDelayed:   foundItem,
	layout.SpaceLeased:    foundItem,
	layout.SpaceKeyReady:  foundRowOfItem,
	layout.SpaceKeyBegun:  foundRowOfItem,
	layout.SpaceKeyHeld:   foundKeyHeld,
	layout.SpaceKeyHead:   foundKeyHead,
	layout.SpaceKeyWaits:  foundKeyWaits,
	layout.SpaceTokensOf:  foundTokensOf,
	layout.SpaceKeyFence:  foundKeyFence,
	layout.SpaceSettings:  foundSettings,
	layout.SpaceTokens:    foundTokens,
	layout.SpaceFairKey:   foundFairKey,
	layout.SpaceUnnamed:   foundFairTag,
	layout.SpaceClass:     foundFairTag,
	layout.SpaceWeight:    foundWeight,
	layout.SpaceMsgID:     foundMsgID,
	layout.SpacePopID:     foundPopID,
	layout.SpacePopItem:   foundPopItem,
	layout.SpaceAnswers:   foundAnswers,
	layout.SpaceRepeated:  foundRepeatedPop,
	layout.SpaceRequest:   foundRequest,
	layout.SpaceResult:    foundRequest,
	layout.SpaceKept:      foundKept,
	layout.SpaceKeptPart:  foundKeptPart,
	layout.SpaceKeptSince: foundRowOfItem,
	layout.SpaceForward:   foundRowOfItem,
	layout.SpaceUnique:    foundRowOfItem,
	layout.SpaceChunk:     foundChunk,
	layout.SpaceTimer:     foundTimer,
	layout.SpaceCounter:   foundCounter,
}
