package fdbpq

import (
	"math/bits"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A pop with an id keeps its answer for the queue's dedup window: tokens of leases, or the content of items that have left
// the queue. What answers take counts as long as they are kept, in a row for each span of time in which they are forgotten.
// So it ends by itself: nothing has to know what an answer took when it is forgotten. Rows of the past stay until the next
// long answer.

// answers counts the bytes of answers that a queue keeps.
type answers struct{ *queueRows }

const (
	// spansOfWindow is how many spans of time a window has at least, and half of how many it has at most.
	spansOfWindow = 8

	// mostSpans is more rows than a queue has, whose window may have changed.
	mostSpans = 1000
)

// keep counts an answer that is forgotten at a time. What an id counts pays for a short one.
func (a answers) keep(due, bytes int64) error {
	if bytes -= RememberedBytes; bytes <= 0 {
		return nil
	}
	row := a.row(due)
	there, err := a.snapshot.Get(row)
	if err != nil {
		return err
	}
	if there == nil {
		now, err := a.now()
		if err != nil {
			return err
		}
		begin, _ := layout.AllRows(layout.SpaceAnswers, a.name)
		a.tx.ClearRange(begin, answersRow(a.name, now))
	}
	a.tx.Add(row, bytes)
	return nil
}

// row is that of the span in which an answer is forgotten, by its end.
func (a answers) row(due int64) []byte {
	span := max(int64(time.Second), int64(a.state.config.DedupWindow)/spansOfWindow)
	span = 1 << (bits.Len64(uint64(span)) - 1)
	return answersRow(a.name, (due/span+1)*span)
}

func answersRow(queue string, end int64) []byte {
	return tuple.AppendInt(layout.QueueRow(layout.SpaceAnswers, queue), end)
}

// kept is what the answers of the queue take.
func (a answers) kept() (bytes int64, err error) {
	begin, end := layout.AllRows(layout.SpaceAnswers, a.name)
	rows, err := a.snapshot.Range(begin, end, kv.RangeOptions{Limit: mostSpans})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	now, err := a.now()
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		until, err := answersUntil(row.Key[len(begin):])
		if err != nil {
			return 0, err
		}
		if until > now {
			bytes += int64(kv.DecodeInteger(row.Value))
		}
	}
	return bytes, nil
}

func answersUntil(key []byte) (end int64, err error) {
	end, _, err = tuple.ConsumeInt(key)
	return end, err
}

// foundAnswers checks a count of answers.
func foundAnswers(_ *walk, r *foundRow) error {
	_, err := answersUntil(r.rest)
	return err
}
