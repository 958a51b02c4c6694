package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// scheduleHome is where the row of a schedule is.
func (r *foundRow) scheduleHome() (h scheduleHome, rest []byte, err error) {
	born, rest, err := tuple.ConsumeInt(r.rest)
	if err == nil && (r.living() != nil || r.state.born != born) {
		err = fmt.Errorf("schedules of no queue: born in %d", born)
	}
	return scheduleHome{r.queue, born}, rest, err
}

func (r *foundRow) scheduleID() (scheduleID, error) {
	h, rest, err := r.scheduleHome()
	if err != nil {
		return scheduleID{}, err
	}
	name, _, err := tuple.ConsumeString(rest)
	return scheduleID{h, name}, err
}

// foundScheduleCounts checks the counts of a queue's schedules.
func foundScheduleCounts(w *walk, r *foundRow) error {
	h, _, err := r.scheduleHome()
	if err == nil {
		w.schedules.counts[h], err = parseScheduleCounts(r.Value)
	}
	return err
}

// foundSchedule checks what a schedule is. That comes before how far it is.
func foundSchedule(w *walk, r *foundRow) error {
	id, err := r.scheduleID()
	if err != nil {
		return err
	}
	w.schedules.rows[id] = new(scheduleRow)
	return w.schedules.rows[id].parseDefinition(r.Value)
}

// foundScheduleProgress checks how far a schedule is.
func foundScheduleProgress(w *walk, r *foundRow) error {
	id, err := r.scheduleID()
	if err != nil {
		return err
	}
	row := w.schedules.rows[id]
	if row == nil {
		return fmt.Errorf("progress of no schedule")
	}
	if err := row.parse(r.Value); err != nil {
		return err
	}
	if row.created == 0 || (row.due == 0) != row.config.Paused && !row.done() {
		w.problem("schedule %q of queue %q has the due time %d, paused: %t", id.name, id.queue, row.due, row.config.Paused)
	}
	if at := row.looked(); at != 0 {
		w.expect(dueRow(at, id.scheduleHome, id.name), nil)
	}
	return nil
}

// foundScheduleDue checks a row of the index. One of a queue that was deleted goes when it falls due.
func foundScheduleDue(w *walk, r *foundRow) error {
	e, err := parseDue(r.Key)
	if err != nil {
		return err
	}
	if _, expected := w.rows[string(r.Key)]; expected {
		delete(w.rows, string(r.Key))
		return nil
	}
	if s := w.queues[e.home.queue]; s != nil && s.exists && s.born == e.home.born {
		return fmt.Errorf("a schedule is to be looked at at another time, or not at all")
	}
	return nil
}

func (w *walk) balanceSchedules() {
	counted := make(map[scheduleHome]scheduleCounts)
	for id, row := range w.schedules.rows {
		n := counted[id.scheduleHome]
		n.add(row, 1)
		counted[id.scheduleHome] = n
		if row.created == 0 {
			w.problem("schedule %q of queue %q has no progress", id.name, id.queue)
		}
	}
	for h, n := range counted {
		if stored := w.schedules.counts[h]; stored != n {
			w.problem("queue %q: counts of schedules are %+v, counted %+v", h.queue, stored, n)
		}
		delete(w.schedules.counts, h)
	}
	for h, n := range w.schedules.counts {
		w.problem("queue %q: counts of schedules are %+v, there are none", h.queue, n)
	}
}
