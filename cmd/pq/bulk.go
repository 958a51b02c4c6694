package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// whereHelp is part of the help of commands that change many items, of those in a state unless --where says otherwise.
func whereHelp(state string) string {
	return `

--where does it to all items that fit; given several times, all have to hold. It
takes state (` + state + `), min, max, key, header.<name>, cause (what failed last),
reason and origin of dead letters, holder of leased items, deliveries and
interruptions (at least), pushed_before and pushed_after (a time, or how long ago).
Headers, cause, reason and origin may end in *.`
}

// bulkFlags choose the items of a command that changes many.
type bulkFlags struct {
	where  []string
	dryRun bool
}

func (b *bulkFlags) define(f *pflag.FlagSet) {
	f.StringArrayVarP(&b.where, "where", "w", nil, "change all items that fit: `field=value`")
	f.BoolVar(&b.dryRun, "dry-run", b.dryRun, "only count what --where would change")
}

// asked reports whether the command is about many items.
func (b *bulkFlags) asked() bool { return len(b.where) > 0 }

// check returns an error unless the command names items either by their ids or by a filter.
func (b *bulkFlags) check(ids int) error {
	switch {
	case b.asked() == (ids > 0):
		return session.Usagef("expected ids, or --where")
	case b.dryRun && !b.asked():
		return session.Usagef("--dry-run: expected --where beside it")
	}
	return nil
}

// whereFields are those of a filter, as --where has them.
var whereFields = []string{"state", "min", "max", "key", "header.<name>", "reason", "cause", "origin", "holder", "deliveries", "interruptions", "pushed_before", "pushed_after"}

// filter reads --where. Fields are those of the request, so the bridge checks most of them.
func (b *bulkFlags) filter(now time.Time) (w client.BulkWhere, err error) {
	fields := make(map[string]any)
	for _, text := range b.where {
		name, value, found := strings.Cut(text, "=")
		field, of := fields, name
		if header, is := strings.CutPrefix(name, "header."); is {
			if fields["header"] == nil {
				fields["header"] = make(map[string]any)
			}
			field, of = fields["header"].(map[string]any), header
		} else if !slices.Contains(whereFields, name) || !found {
			return w, session.Usagef("--where %q: expected <field>=<value>, of %s", text, strings.Join(whereFields, ", "))
		}
		if value == "" || of == "" {
			return w, session.Usagef("--where %q: expected a value", text)
		}
		if field[of] != nil {
			return w, session.Usagef("--where: found %s twice", name)
		}
		field[of] = value
		switch name {
		case "min", "max", "deliveries", "interruptions":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return w, session.Usagef("--where %q: expected an integer", text)
			}
			if name != "min" && name != "max" && n < 1 { // 0 would be no condition
				return w, session.Usagef("--where %q: expected 1 or more", text)
			}
			field[of] = n
		case "pushed_before", "pushed_after":
			at, err := timeOrAgo(value, now)
			if err != nil {
				return w, session.Usagef("--where %q: expected a time such as 2006-01-02T15:04:05Z, or how long ago, such as 1h", text)
			}
			field[of] = at
		}
	}
	object, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(object, &w)
	}
	return w, err
}

// timeOrAgo reads a time, or a duration before now.
func timeOrAgo(text string, now time.Time) (time.Time, error) {
	if ago, err := session.ParseDuration(text); err == nil {
		return now.Add(-ago), nil
	}
	return time.Parse(time.RFC3339, text)
}

// run does a bulk operation on some queues, as one: what it does is told by a word such as removed.
func (b *bulkFlags) run(s *session.Session, queues []*client.Queue, o client.Bulk, did, would string) (err error) {
	if o.Where, err = b.filter(time.Now()); err != nil {
		return err
	}
	o.DryRun = b.dryRun
	var total client.BulkResult
	for _, q := range queues {
		var one client.BulkResult
		one, err = q.Bulk(s.Context, o)
		total.Done += one.Done
		total.Looked += one.Looked
		total.AtLeast = total.AtLeast || one.AtLeast
		if total.Full = one.Full; errors.Is(err, client.ErrNotFound) && len(queues) > 1 {
			err = nil // one of them is enough
			continue
		}
		if err != nil || total.Full {
			break
		}
	}
	if err != nil && total.Done == 0 {
		return err
	}
	word := did
	if b.dryRun {
		word = "would " + would
	}
	more := ""
	if total.AtLeast {
		more = ", or more: an answer was lost"
	}
	told := s.Answer(map[string]any{"done": total.Done, "looked": total.Looked, "dry_run": b.dryRun, "full": total.Full}, "%s %s%s", word, show.Many(total.Done, "item"), more)
	switch {
	case err != nil || told != nil:
		return errors.Join(err, told)
	case total.Full:
		return errors.New("the queue that the items go to is full: make room, and run it again")
	case total.Done == 0:
		return session.ExitError(session.ExitNothing)
	}
	return nil
}
