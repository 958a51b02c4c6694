package named

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// Made says what became of definitions.
type Made struct {
	Schedules int `json:"schedules"` // that were made
	Sources   int `json:"sources"`
	Links     int `json:"links"`
	Kept      int `json:"kept"` // the queue has another one of that name
	Done      int `json:"done"` // schedules without a further time
}

// maxRefused is how many refusals there are before nothing more is tried.
const maxRefused = 10

// Make makes what the queue has not got. What runs does so only where that is said. isNew says that the queue has nothing yet. The error has all
// refusals; what was not refused was made.
func Make(ctx context.Context, q *client.Queue, d *protocol.Definitions, isNew, run bool) (made Made, err error) {
	m := maker{made: &made}
	if !isNew {
		if m.there, err = names(ctx, q, d); err != nil {
			return made, err
		}
	}
	for i := range d.Schedules {
		one := &d.Schedules[i]
		if one.Done {
			made.Done++
			continue
		}
		m.one("schedule", one.Name, &made.Schedules, func() error {
			_, err := q.SetSchedule(ctx, one.Name, NextSchedule(one, one.Paused || !run))
			return err
		})
	}
	for i := range d.Sources {
		one := &d.Sources[i]
		m.one("source", one.Name, &made.Sources, func() error {
			_, err := q.SetSource(ctx, one.Name, NextSource(one, one.Paused || !run))
			return err
		})
	}
	for i := range d.Links {
		one := &d.Links[i]
		m.one("link", one.Name, &made.Links, func() error {
			_, err := q.SetLink(ctx, one.Name, Link(one, one.Paused || !run))
			return err
		})
	}
	return made, errors.Join(m.refused...)
}

type maker struct {
	made    *Made
	there   map[string]bool // by their kinds and names
	refused []error
}

func (m *maker) one(kind, name string, made *int, set func() error) {
	if m.there[kind+" "+name] {
		m.made.Kept++
		return
	}
	if len(m.refused) == maxRefused {
		return
	}
	if err := set(); err != nil {
		m.refused = append(m.refused, fmt.Errorf("%s %s: %w", kind, name, err))
		return
	}
	*made++
}

// names are those that the queue has, of kinds of which there are some to make.
func names(ctx context.Context, q *client.Queue, d *protocol.Definitions) (map[string]bool, error) {
	there := make(map[string]bool)
	err := errors.Join(
		note(there, "schedule", len(d.Schedules), q.Schedules(ctx, ""), func(s client.Schedule) string { return s.Name }),
		note(there, "source", len(d.Sources), q.Sources(ctx, ""), func(s client.Source) string { return s.Name }),
		note(there, "link", len(d.Links), q.Links(ctx, ""), func(l client.Link) string { return l.Name }))
	return there, err
}

func note[T any](there map[string]bool, kind string, wanted int, list iter.Seq2[T, error], name func(T) string) error {
	if wanted == 0 {
		return nil
	}
	for one, err := range list {
		if err != nil {
			return err
		}
		there[kind+" "+name(one)] = true
	}
	return nil
}

// Lines say it for people. run is that of [Make].
func (m *Made) Lines(run bool) (lines []string) {
	if count := Count(m.Schedules, m.Sources, m.Links); count != "" {
		lines = append(lines, fmt.Sprintf("made %s, %s", count, m.how(run)))
	}
	if m.Kept > 0 {
		lines = append(lines, fmt.Sprintf("kept %d of the queue that have the names of those in the export", m.Kept))
	}
	if m.Done > 0 {
		lines = append(lines, fmt.Sprintf("left out %s without a further time", show.Many(int64(m.Done), "schedule")))
	}
	return lines
}

// how says whether what was made runs, and how it starts.
func (m *Made) how(run bool) string {
	if run {
		return "which run as they did"
	}
	var starts []string
	for i, n := range []int{m.Schedules, m.Sources, m.Links} {
		if n > 0 {
			starts = append(starts, fmt.Sprintf(`"pq %s resume"`, kinds[i]))
		}
	}
	if len(starts) == 1 {
		return fmt.Sprintf("paused: %s starts them", starts[0])
	}
	return fmt.Sprintf("paused: %s start them", enumerate(starts))
}
