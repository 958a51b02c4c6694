package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// Peek returns the items that Pop would return for the selection, and removes none.
func (q Queue) Peek(r kv.Reader, sel Selection) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	s := qtx.state
	if err := s.refusesEnd(&sel); err != nil {
		return Popped{}, err
	}
	if s.paused {
		return Popped{Reason: ReasonPaused}, nil
	}
	found := collector{queueRows: &qtx.queueRows, sel: sel}
	var popped Popped
	retry, err := found.bound()
	if err != nil {
		return Popped{}, err
	}
	if found.sel.Limit == 0 {
		return popped, reasons{&qtx.queueRows}.completeLater(&popped, *sel.Band, retry)
	}
	if err := found.run(); err != nil {
		return Popped{}, err
	}
	for _, f := range found.items {
		if err := (contents{found.queueRows}).load(&f.Envelope, f.Place); err != nil {
			return Popped{}, err
		}
		item, err := itemOf(&f)
		if err != nil {
			return Popped{}, err
		}
		popped.Items = append(popped.Items, item)
	}
	if len(popped.Items) == 0 && s.takesTurns() {
		if popped.Retry, err = (keyIndex{&qtx.queueRows}).nextToken(found.token); err != nil {
			return Popped{}, err
		}
	}
	return popped, reasons{&qtx.queueRows}.complete(&popped, *sel.Band)
}
