// Package named has what stands in a queue by a name: schedules, sources and links. It reads them for an export, and makes them from
// what was read, in the same queue or in another one.
//
// What it makes goes on where the original was, as far as another store can: a source that copies behind the last message that the original was
// done with, a schedule with the firings that its count has left. A source that takes, and a link, begin anew.
package named

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// Read returns what a queue has by names, of the kinds that this user may read. left says why it returns nothing of the others. may runs
// requests, and returns the NATS server's word if it lets this user send none of them.
func Read(q *client.Queue, may func(func(context.Context) error) (denied, err error)) (d protocol.Definitions, left []string, err error) {
	for _, kind := range []struct {
		name string
		read func(context.Context) error
		drop func()
	}{
		{"schedules", func(ctx context.Context) (err error) {
			d.Schedules, err = schedules(ctx, q)
			return err
		}, func() { d.Schedules = nil }},
		{"sources", func(ctx context.Context) (err error) {
			d.Sources, err = all(q.Sources(ctx, ""))
			return err
		}, func() { d.Sources = nil }},
		{"links", func(ctx context.Context) (err error) {
			d.Links, err = all(q.Links(ctx, ""))
			return err
		}, func() { d.Links = nil }},
	} {
		denied, err := may(kind.read)
		if errors.Is(err, errLarge) {
			left = append(left, fmt.Sprintf("left out the %s, which have more than %s: \"pq %s ls --json\" prints them", kind.name, show.Size(protocol.MaxExportDefinitions), strings.TrimSuffix(kind.name, "s")))
			kind.drop()
			continue
		}
		if err != nil {
			return d, left, err
		}
		if denied != nil {
			left = append(left, fmt.Sprintf("left out the %s: this user may not read them", kind.name))
			kind.drop()
		}
	}
	return d, left, nil
}

var errLarge = errors.New("too large")

// schedules returns the schedules of a queue with their items.
func schedules(ctx context.Context, q *client.Queue) (found []client.Schedule, err error) {
	size := 0
	for listed, err := range q.Schedules(ctx, "") {
		if err != nil {
			return nil, err
		}
		one, err := q.Schedule(ctx, listed.Name)
		if errors.Is(err, client.ErrNotFound) {
			continue // it is gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		one.Times = nil
		text, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > protocol.MaxExportDefinitions {
			return nil, errLarge
		}
		found = append(found, one)
	}
	return found, nil
}

func all[T any](list iter.Seq2[T, error]) (found []T, err error) {
	for one, err := range list {
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// kinds are what there is, in the order in which it is said.
var kinds = []string{"schedule", "source", "link"}

// Count says how many there are, "" for none.
func Count(schedules, sources, links int) string {
	var parts []string
	for i, n := range []int{schedules, sources, links} {
		if n > 0 {
			parts = append(parts, show.Many(int64(n), kinds[i]))
		}
	}
	return enumerate(parts)
}

// enumerate is "a, b and c".
func enumerate(parts []string) string {
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
	return strings.Join(parts, "")
}

// Schedule is the change that makes a schedule like one that was read.
func Schedule(read *client.Schedule, paused bool) client.ScheduleChange {
	return client.ScheduleChange{
		Spec: &read.Spec, Item: read.Item, Start: read.Start, End: read.End, Count: &read.Count, Jitter: &read.Jitter, Paused: &paused,
		Zone: given(read.Zone), Overlap: given(read.Overlap), CatchUp: given(read.CatchUp), Missed: given(read.Missed),
	}
}

// given is a field that was read; one that is missing leaves the default.
func given[T comparable](field T) *T {
	if field == *new(T) {
		return nil
	}
	return &field
}

// NextSchedule is the change that has a schedule go on in another queue: with the firings that are left of its count, and in the
// step of "@every".
func NextSchedule(read *client.Schedule, paused bool) client.ScheduleChange {
	change := Schedule(read, paused)
	if read.Count > 0 {
		change.Count = new(max(1, read.Count-read.Counts.Fired)) // one without a further firing is done
	}
	at := read.Next
	if at.IsZero() { // it is paused
		at = read.Last
	}
	if change.Start == nil && strings.HasPrefix(read.Spec, "@every") && !at.IsZero() {
		change.Start = &at
	}
	return change
}

// Source is the change that makes a source like one that was read.
func Source(read *client.Source, paused bool) client.SourceChange {
	change := client.SourceChange{Remote: &read.Remote, Batch: &read.Batch, Paused: &paused}
	if read.Link != "" {
		change.Queue, change.Link = &read.Queue, &read.Link
		return change
	}
	change.Stream, change.Mode, change.Filter = &read.Stream, &read.Mode, append([]string{}, read.Filter...)
	change.Start, change.Map = read.Start, make(map[string]any)
	for field, value := range read.Map {
		change.Map[field] = value
	}
	return change
}

// NextSource is the change that has a source go on in another queue: one that copies behind the last message that it was done with.
func NextSource(read *client.Source, paused bool) client.SourceChange {
	change := Source(read, paused)
	if read.Link == "" && read.Mode == protocol.SourceCopies && read.Seq > 0 {
		change.Start = fmt.Appendf(nil, `{"seq":%d}`, read.Seq+1)
	}
	return change
}

// Link is the change that makes a link like one that was read.
func Link(read *client.Link, paused bool) client.LinkChange {
	return client.LinkChange{To: &read.To, Paused: &paused}
}

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
