package schedule

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// read returns a schedule, nil if there is none.
func (h home) read(r kv.Reader, name string) (*record, error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceSchedule, name), h.Key(layout.SpaceProgress, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	row := new(record)
	err = row.parseDefinition(rows[0])
	if err == nil {
		err = row.parse(rows[1])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged schedule %q: %w", name, err)
	}
	return row, nil
}

// write writes a schedule, and moves its index row. before is the schedule as the store has it,
// nil: there is none.
func (h home) write(tx kv.Tx, name string, before, after *record) error {
	value, err := after.packDefinition()
	if err != nil {
		return err
	}
	tx.Set(h.Key(layout.SpaceSchedule, name), value)
	h.advance(tx, name, before, after)
	return nil
}

// advance writes how far a schedule is, and moves its index row.
func (h home) advance(tx kv.Tx, name string, before, after *record) {
	tx.Set(h.Key(layout.SpaceProgress, name), after.pack())
	was, is := int64(0), after.nextVisit()
	if before != nil {
		was = before.nextVisit()
	}
	if was == is {
		return
	}
	if was != 0 {
		tx.Clear(dueRow(was, h, name))
	}
	if is != 0 {
		tx.Set(dueRow(is, h, name), nil)
	}
}

// remove clears a schedule.
func (h home) remove(tx kv.Tx, name string, row *record) error {
	if err := h.count(tx, row, nil); err != nil {
		return err
	}
	tx.Clear(h.Key(layout.SpaceSchedule, name))
	tx.Clear(h.Key(layout.SpaceProgress, name))
	if at := row.nextVisit(); at != 0 {
		tx.Clear(dueRow(at, h, name))
	}
	return nil
}

// plan sets the next time of a schedule, and when there is something to do about it.
func (row *record) plan(p *plan, now int64) {
	goes := now + int64(doneKept)
	if row.done() {
		goes = row.due
	}
	was, full := row.next, row.full
	row.next, row.due, row.full = 0, 0, false
	next, ok := p.times.Next(instant(row.after))
	if !ok || p.left(row.fired) == 0 {
		row.due = goes
		return
	}
	if p.Paused {
		return
	}
	row.next, row.due = next.UnixNano(), p.dueAt(next).UnixNano()
	if full && row.next == was { // it tries again at once
		row.full, row.due = true, max(row.due, now)
	}
}
