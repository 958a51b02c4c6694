package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// foundKept checks a result.
func foundKept(w *walk, r *foundRow) error {
	suffix, err := suffixOf(r.rest)
	if err != nil {
		return err
	}
	kept, err := layout.ParseResult(r.Value)
	if err != nil {
		return err
	}
	if r.state == nil || !r.state.exists || !r.state.results {
		return fmt.Errorf("queue %q keeps no results", r.queue)
	}
	results{&w.of(r.lineage).queueRows}.count(kept.Size, 1)
	since := kept.Since(suffix)
	w.expect(since.Key(r.queue), since.Append(nil))
	if kept.Chunks > 0 {
		begin, _ := layout.KeptParts(r.queue, suffix)
		w.chunks[string(begin)] += kept.Size
	}
	at := keptAs{r.queue, kept.Keep}
	if last, known := w.kept[at]; !known || kept.Timer() < last {
		w.kept[at] = kept.Timer()
	}
	return nil
}

// foundKeptPart checks a part of a large result.
func foundKeptPart(w *walk, r *foundRow) error {
	suffix, err := suffixOf(r.rest)
	if err != nil {
		return err
	}
	of, _ := layout.KeptParts(r.queue, suffix)
	if _, known := w.chunks[string(of)]; !known {
		return fmt.Errorf("part of no result")
	}
	w.chunks[string(of)] -= int64(len(r.Value))
	return nil
}

// suffixOf reads the suffix of an item from a key.
func suffixOf(rest []byte) (string, error) {
	suffix, _, err := tuple.ConsumeBytes(rest)
	return string(suffix), err
}
