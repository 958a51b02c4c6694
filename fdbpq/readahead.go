package fdbpq

// readAhead is the head of a queue, read before the queue's state is known, so that
// an engine over a network serves it at the same time as prefetched rows.
type readAhead struct {
	guess   *queueState // assumed state
	rest    nextEntries
	entries []entry // the first ones
	given   bool
}

// startReadAhead reads the head of the queue if the queue's state can be guessed and
// the transaction has not read it yet.
func startReadAhead(w *Work, queue string, sel *Selection) (*readAhead, error) {
	if w.known(queue) != nil {
		return nil, nil
	}
	guess := w.store.queueStates.last(queue)
	if guess == nil || sel.PopID != "" || !guess.likelyRead(sel) {
		return nil, nil
	}
	next := readyItems(queue, w.front(guess), guess, sel.End, *sel.Band, guess.config.Ties)
	entries, err := next(sel.Limit, sel.MaxBytes)
	return &readAhead{guess: guess, rest: next, entries: entries}, err
}

// next returns the entries that were read ahead, and then those that follow.
func (a *readAhead) next(limit, maxBytes int) ([]entry, error) {
	if a.given {
		return a.rest(limit, maxBytes)
	}
	a.given = true
	return a.entries, nil
}
