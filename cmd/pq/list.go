package main

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

func listCommand() *command {
	state, count, bodies := string(client.Ready), 20, false
	var after string
	return &command{
		name: "list", args: "<queue>", min: 1, max: 1,
		short: "list the items of a queue",
		long: `Lists items in the order in which "pq pop" would take them, and changes nothing.
Without any the exit code is 3.`,
		examples: []example{
			{"what is being worked on", "pq list jobs --state leased"},
			{"all of it, with payloads, as JSON", "pq list jobs -n 0 --bodies --json"},
		},
		flags: func(f *flags) {
			f.text(&state, "state", "items in this `state`: ready, leased or delayed")
			f.number(&count, "count,n", "list at most this `number`, 0 for all")
			f.text(&after, "after", "begin behind the item with this `id`")
			f.yes(&bodies, "bodies,b", "payloads too")
		},
		run: func(s *session, args []string) error {
			switch client.State(state) {
			case client.Ready, client.Leased, client.Delayed:
			default:
				return usagef("--state %q: expected ready, leased or delayed", state)
			}
			if count < 0 {
				return usagef("--count %d: expected 0 or more", count)
			}
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			options := client.ListOptions{State: client.State(state), After: after, Bodies: bodies}
			return s.list(q, options, count)
		},
	}
}

func (s *session) list(q *client.Queue, o client.ListOptions, most int) error {
	rows := [][]string{{"ID", "PRIORITY", "AGE", "SIZE", "DELIVERIES"}}
	if o.State != client.Ready {
		rows[0] = append(rows[0], map[client.State]string{client.Leased: "LEASE ENDS", client.Delayed: "DUE"}[o.State])
	}
	if o.Bodies {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	n, more := 0, false
	for i, err := range q.List(s.ctx, o) {
		if err != nil {
			return err
		}
		if more = most > 0 && n == most; more {
			break
		}
		n++
		if o.Bodies && i.Body == nil && i.Size > 0 { // too large for a list
			whole, err := q.Get(s.ctx, i.ID)
			if err != nil {
				return err
			}
			i.Body = whole.Payload
		}
		if s.global.json {
			if err := s.printJSON(listed(&i)); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, listRow(&i, o))
	}
	switch {
	case n == 0:
		s.say("no %s items", o.State)
		return exitError(exitNothing)
	case s.global.json:
		return nil
	}
	if err := table(s.stdout, rows); err != nil {
		return err
	}
	if more {
		s.say("there are more: --count, or --after %s", rows[len(rows)-1][0])
	}
	return nil
}

func listRow(i *client.Listed, o client.ListOptions) []string {
	row := []string{
		i.ID, fmt.Sprint(i.Priority), span(time.Since(i.Pushed).Round(time.Second)), size(i.Size), fmt.Sprint(i.Deliveries),
	}
	if o.State != client.Ready {
		row = append(row, until(i.Due))
	}
	if o.Bodies {
		row = append(row, excerpt(i.Body))
	}
	return row
}

// excerpt shows the beginning of a payload on one line.
func excerpt(payload []byte) string {
	const most = 50
	text := fmt.Sprintf("%q", payload[:min(len(payload), most)])
	text = text[1 : len(text)-1]
	if len(payload) > most {
		text += "…"
	}
	return text
}
