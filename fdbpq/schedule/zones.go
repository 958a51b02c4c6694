package schedule

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A row has a version of the zones of the tz database: no time of a schedule was planned with
// older ones. planned keeps that so.
func (s *Schedules) planned(tx kv.Tx, row *record) error {
	if row.next == 0 || row.config.Zone == "UTC" {
		return nil
	}
	version, err := zonesVersion(tx.Snapshot())
	if err == nil && version > s.runner.zoneData {
		tx.Set(zonesRow(), []byte(s.runner.zoneData))
	}
	return err
}

func zonesRow() []byte { return layout.Row(layout.SpaceZones) }

func zonesVersion(r kv.Reader) (string, error) {
	value, err := r.Get(zonesRow())
	return string(value), err
}

// replanAtOnce is how many schedules one transaction looks at after the zones have changed.
const replanAtOnce = 500

// replan plans schedules again after the zones have changed, some at a time. A process with
// older zones than those that planned them changes nothing.
func (f *firing) replan() error {
	r := &f.runner
	version, err := zonesVersion(f.tx) // a process with older zones may plan one meanwhile
	if err != nil || version >= r.zoneData {
		return err
	}
	behind := r.replannedTo()
	begin, end := tuple.Range(layout.Row(layout.SpaceProgress))
	if behind != nil {
		begin = append(behind[:len(behind):len(behind)], 0)
	}
	rows, err := f.tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: replanAtOnce})
	if err != nil {
		return err
	}
	for _, pair := range rows {
		if err := f.replanOne(pair.Key); err != nil {
			return err
		}
	}
	if f.replanned = true; len(rows) == replanAtOnce {
		f.replannedTo = rows[len(rows)-1].Key
	} else {
		f.tx.Set(zonesRow(), []byte(r.zoneData))
	}
	return nil
}

func (f *firing) replanOne(key []byte) error {
	r := tuple.Read(key[len(layout.Row(layout.SpaceProgress)):])
	e := dueEntry{home: newHome(r.Text(), r.Int()), name: r.Text()}
	if r.Err() != nil {
		return fmt.Errorf("damaged schedule: %w", r.Err())
	}
	before, err := e.home.read(f.tx, e.name)
	if err != nil || before == nil || before.config.Paused || before.next == 0 || before.config.Zone == "UTC" {
		return err
	}
	p, err := newPlan(e.home.Queue, e.name, before.config, before.created)
	if err != nil {
		return err
	}
	after := *before
	if after.plan(p, f.now); after.next != before.next {
		e.home.advance(f.tx, e.name, before, &after)
	}
	return nil
}
