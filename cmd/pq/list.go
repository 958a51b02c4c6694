package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

func listCommand(s *session.Session) *cobra.Command {
	state, count, bodies := string(client.Ready), 20, false
	var key, holder, after string
	var attempts, progress bool
	c := &cobra.Command{
		Use: "list <queue>", Args: session.Arguments(1, 1), SuggestFor: []string{"jobs", "items"},
		Short: "list the items of a queue",
		Long: `Lists items in the order in which "pq pop" would take them, and changes nothing.
If there are none the exit code is 3.`,
		Example: `  # items that consumers work on
  pq list jobs --state leased

  # those of one worker
  pq list jobs --state leased --holder build-7-1234

  # the items of one key that are ready
  pq list jobs --key ann

  # all items with their payloads, as JSON
  pq list jobs -n 0 --bodies --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch client.State(state) {
			case client.Ready, client.Leased, client.Delayed:
			default:
				return session.Usagef("--state %q: expected ready, leased or delayed", state)
			}
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			options := client.ListOptions{State: client.State(state), Key: key, Holder: holder, After: after, Bodies: bodies, Attempts: attempts, Progress: progress}
			return printList(s, q, options, count)
		},
	}
	f := c.Flags()
	f.StringVar(&state, "state", state, "items in this `state`: ready, leased or delayed")
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.StringVar(&key, "key", "", "only ready items of this `key`")
	f.StringVar(&holder, "holder", "", "only leased items of this `holder`")
	f.BoolVar(&attempts, "attempts", attempts, "show how the last lease without success ended")
	f.BoolVar(&progress, "progress", progress, "show how far the holders have come, if they have said so")
	f.StringVar(&after, "after", after, "start behind the item with this `id`")
	f.BoolVarP(&bodies, "bodies", "b", bodies, "show payloads, too")
	return c
}

func printList(s *session.Session, q *client.Queue, o client.ListOptions, most int) error {
	rows := [][]string{{"ID", "PRIORITY", "AGE", "SIZE", "COST", "DELIVERIES"}}
	costs := false
	if o.State == client.Leased {
		rows[0] = append(rows[0], "SINCE")
	}
	if o.State != client.Ready {
		rows[0] = append(rows[0], map[client.State]string{client.Leased: "LEASE ENDS", client.Delayed: "DUE"}[o.State])
	}
	if o.State == client.Leased {
		rows[0] = append(rows[0], "HOLDER")
	}
	if o.Attempts {
		rows[0] = append(rows[0], "LAST ATTEMPT")
	}
	if o.Progress {
		rows[0] = append(rows[0], "PROGRESS")
	}
	if o.Bodies {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	n, more := 0, false
	for i, err := range q.List(s.Context, o) {
		if err != nil {
			return err
		}
		if more = most > 0 && n == most; more {
			break
		}
		n++
		if o.Bodies && i.Body == nil && i.Size > 0 { // too large for a list
			whole, err := q.Get(s.Context, i.ID)
			if err != nil {
				return err
			}
			i.Body = whole.Payload
		}
		if s.Global.JSON {
			if err := s.PrintJSON(show.Listed(&i)); err != nil {
				return err
			}
			continue
		}
		costs = costs || i.Cost > 1
		rows = append(rows, listRow(&i, o))
	}
	switch {
	case n == 0:
		s.Say("no %s items%s", o.State, elsewhere(s, q, o))
		return session.ExitError(session.ExitNothing)
	case s.Global.JSON:
		return nil
	}
	if !costs {
		rows = show.Without(rows, "COST")
	}
	if err := show.Table(s.Stdout, rows); err != nil {
		return err
	}
	if more {
		s.Say("there are more: --count, or --after %s", rows[len(rows)-1][0])
	}
	return nil
}

// elsewhere says how many items the queue has in other states, as far as this user may know.
func elsewhere(s *session.Session, q *client.Queue, o client.ListOptions) string {
	if o.Key != "" || o.Holder != "" || o.After != "" {
		return ""
	}
	info, err := q.Info(s.Context)
	if err != nil {
		return "" // the list itself was allowed, and is empty
	}
	var there []string
	for _, of := range []struct {
		state client.State
		items int64
	}{{client.Ready, info.Ready}, {client.Delayed, info.Delayed}, {client.Leased, info.Leased}} {
		if of.state != o.State && of.items > 0 {
			there = append(there, fmt.Sprintf("%d %s (--state %s)", of.items, of.state, of.state))
		}
	}
	if len(there) == 0 {
		return ""
	}
	return "; " + strings.Join(there, ", ")
}

func listRow(i *client.Listed, o client.ListOptions) []string {
	row := []string{
		i.ID, fmt.Sprint(i.Priority), show.Span(time.Since(i.Pushed).Round(time.Second)), show.Size(i.Size),
		fmt.Sprint(max(i.Cost, 1)), show.Deliveries(int64(i.Deliveries), i.Endings),
	}
	if o.State == client.Leased {
		since := "-" // a link holds it
		if !i.Since.IsZero() {
			since = show.Until(i.Since)
		}
		row = append(row, since)
	}
	switch {
	case i.Held:
		row = append(row, "held")
	case o.State != client.Ready:
		row = append(row, show.Until(i.Due))
	}
	if o.State == client.Leased {
		row = append(row, screen.Visible(i.Holder))
	}
	if o.Attempts {
		row = append(row, show.LastAttempt(i))
	}
	if o.Progress {
		row = append(row, screen.Visible(i.Progress))
	}
	if o.Bodies {
		row = append(row, show.Excerpt(i.Body))
	}
	return row
}

func getCommand(s *session.Session) *cobra.Command {
	var raw, attempts bool
	c := &cobra.Command{
		Use: "get <queue> <id>", Args: session.Arguments(2, 2),
		Short: "show an item by its id",
		Long: `Shows an item in any state, and changes nothing. If there is no such item the exit
code is 3.`,
		Example: `  # headers and payload
  pq get jobs FBUBAX_Af0DSUlItAA

  # how its earlier deliveries ended
  pq get jobs FBUBAX_Af0DSUlItAA --attempts

  # the payload alone
  pq get images FBUBAX_Af0DSUlItAA --raw > photo.jpg`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			var options []client.GetOption
			if attempts {
				options = append(options, client.WithAttempts())
			}
			i, err := q.Get(s.Context, args[1], options...)
			if errors.Is(err, client.ErrNotFound) {
				if r, none := q.Result(s.Context, args[1]); none == nil {
					s.Say("the item has ended, %s: %s", r.Outcome, show.Command("result", args))
				}
			}
			switch {
			case err != nil:
				return err
			case raw:
				return s.Print(string(i.Payload))
			case s.Global.JSON:
				return s.PrintJSON(show.Shown(i))
			}
			if err := s.Print(show.Shown(i).Describe() + "\n"); err != nil {
				return err
			}
			return s.PrintPayload(i.Payload)
		},
	}
	f := c.Flags()
	f.BoolVar(&attempts, "attempts", attempts, "show how its earlier leases ended")
	f.BoolVar(&raw, "raw", raw, "print the payload alone, unchanged")
	return c
}
