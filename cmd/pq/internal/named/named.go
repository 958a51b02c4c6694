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
