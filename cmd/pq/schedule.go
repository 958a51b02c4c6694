package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/named"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// schedules are the commands about schedules.
type schedules struct{ definitions }

func scheduleCommand(s *session.Session) *cobra.Command {
	w := schedules{definitions{s, "schedule", "reports morning"}}
	return w.command(&cobra.Command{
		Use:   "schedule",
		Short: "push an item at each time of a calendar",
		Long:  "A schedule pushes its item to its own queue at each time of a calendar.",
	},
		w.setCommand(), w.lsCommand(), w.showCommand(), w.nextCommand(), w.runCommand(), w.pauseCommand(), w.resumeCommand(), w.rmCommand())
}

const scheduleFields = `
  spec      "30 7 * * mon-fri", "@every 90s", "@daily", "@at 2027-01-31T09:00:00Z"
  zone      of the fields of the spec, such as Europe/Berlin
  start     the first time that may fire; empty: any
  end       the last time that may fire; empty: any
  count     how many times it fires in all; 0: no bound
  overlap   while an earlier item of it lives: skip, one, replace or allow
  catch_up  how late it may fire
  missed    of several times that are due, the last or each: one or all
  jitter    it fires later by a part of this time
  paused    true or false`

func (s schedules) setCommand() *cobra.Command {
	var item scheduleItem
	from, run := "", false
	c := &cobra.Command{
		Use: "set <queue> <name> <field>=<value>...", Args: session.Arguments(1, session.AnyNumber),
		Short: "make or change a schedule",
		Long: `Makes a schedule, or changes the fields that are named. A flag about the item
replaces the whole item. The fields:
` + scheduleFields + `

With --from it reads the lines that "pq schedule ls --json" prints, and makes these
schedules. They are paused, unless --run is given.`,
		Example: `  # a report on each working day
  pq schedule set reports morning spec='30 7 * * mon-fri' zone=Europe/Berlin --payload report

  # the schedules of one queue for another one
  pq schedule ls reports --json | pq schedule set copies --from -`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if from != "" {
				if len(args) > 1 || item.set() {
					return session.Usagef("--from %s: expected the queue alone", from)
				}
				return s.from(q, from, run)
			}
			if run {
				return session.Usagef("--run is about the lines of --from")
			}
			if len(args) < 2 {
				return session.Usagef("found no name: expected <queue> <name> <field>=<value>...")
			}
			change, err := parseSchedule(args[2:])
			if err != nil {
				return err
			}
			if change.Item, err = item.read(); err != nil {
				return err
			}
			set, err := q.SetSchedule(s.Context, args[1], change)
			if err != nil {
				return err
			}
			return s.Answer(set, "%s", scheduleText(&set))
		},
	}
	item.flags(c)
	f := c.Flags()
	f.StringVar(&from, "from", from, "read schedules from this `file`, - for standard input")
	f.BoolVar(&run, "run", run, "let those that --from reads run as they did")
	return c
}

// scheduleItem has the flags about the item of a schedule.
type scheduleItem struct {
	command  *cobra.Command
	payload  string
	headers  []string
	priority int64
	key      string
	weight   int64
	cost     int64
	ttl      time.Duration
}

func (i *scheduleItem) flags(c *cobra.Command) {
	i.command = c
	f := c.Flags()
	f.StringVar(&i.payload, "payload", "", "`text` of the item")
	f.StringArrayVarP(&i.headers, "header", "H", nil, "header of the item, `name:value`; may be repeated")
	f.Int64VarP(&i.priority, "priority", "p", 0, "its `priority`; without: the queue's default")
	f.StringVar(&i.key, "key", "", "its `key`")
	f.Int64Var(&i.weight, "weight", 0, "`weight` of its key where keys take turns")
	f.Int64Var(&i.cost, "cost", 0, "`cost` of each delivery, from 1 to 1000000; 1 if not given")
	session.DurationVar(f, &i.ttl, "ttl", "", "`time` after which it expires")
}

func (i *scheduleItem) set() bool {
	for _, name := range []string{"payload", "header", "priority", "key", "weight", "cost", "ttl"} {
		if i.command.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// read returns the item, nil if no flag is about it.
func (i *scheduleItem) read() (*client.ScheduleItem, error) {
	if !i.set() {
		return nil, nil
	}
	item := &client.ScheduleItem{Key: i.key, Weight: i.weight, Cost: i.cost, TTL: protocol.Duration(i.ttl)}
	if utf8.ValidString(i.payload) {
		item.Payload = &i.payload
	} else {
		item.Base64 = []byte(i.payload)
	}
	if i.command.Flags().Changed("priority") {
		item.Priority = &i.priority
	}
	for _, header := range i.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok {
			return nil, session.Usagef("--header %q: expected name:value", header)
		}
		if item.Headers == nil {
			item.Headers = make(map[string][]string)
		}
		item.Headers[name] = append(item.Headers[name], strings.TrimSpace(value))
	}
	return item, nil
}

// parseSchedule reads <field>=<value>.
func parseSchedule(args []string) (change client.ScheduleChange, err error) {
	err = eachField(args, func(name, text string) error {
		switch name {
		case "spec":
			change.Spec = &text
		case "zone":
			change.Zone = &text
		case "overlap":
			change.Overlap = &text
		case "missed":
			change.Missed = &text
		case "start", "end":
			if text == "" {
				change.Drop = append(change.Drop, name)
				return nil
			}
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return session.Usagef("%s=%s: expected a time such as 2027-01-31T09:00:00Z", name, text)
			}
			if change.Start = &at; name == "end" {
				change.Start, change.End = nil, &at
			}
		case "catch_up", "jitter":
			d, err := session.ParseDuration(text)
			if err != nil {
				return session.Usagef("%s=%s: expected a duration such as 1h", name, text)
			}
			if name == "jitter" {
				change.Jitter = new(protocol.Duration(d))
			} else {
				change.CatchUp = new(protocol.Duration(d))
			}
		case "count":
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return session.Usagef("count=%s: expected an integer", text)
			}
			change.Count = &n
		case "paused":
			paused, err := strconv.ParseBool(text)
			if err != nil {
				return session.Usagef("paused=%s: expected true or false", text)
			}
			change.Paused = &paused
		default:
			return session.Usagef("unknown field %q: expected spec, zone, start, end, count, overlap, catch_up, missed, jitter or paused", name)
		}
		return nil
	})
	return change, err
}

// from makes the schedules that lines say.
func (s schedules) from(q *client.Queue, file string, run bool) error {
	return s.eachLine(file, func(line []byte) (name string, err error) {
		var read client.Schedule
		if json.Unmarshal(line, &read) != nil || read.Name == "" {
			return "", errLine
		}
		if read.Done {
			s.Say("left out %s, which is done", read.Name)
			return "", nil
		}
		_, err = q.SetSchedule(s.Context, read.Name, named.Schedule(&read, read.Paused || !run))
		return read.Name, err
	})
}

func (s schedules) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls <queue>", Args: session.Arguments(1, 1),
		Short: "list the schedules of a queue",
		Long: `Lists the schedules of a queue. If there are none the exit code is 3. With --json
it prints all that "pq schedule set --from" needs.`,
		Example: `  # what fires next
  pq schedule ls reports`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			rows := [][]string{{"NEXT", "FIRED", "MISSED", "OVERLAPPED", "SPEC", "ZONE", "NAME"}}
			for one, err := range q.Schedules(s.Context, "") {
				if err == nil && s.Global.JSON {
					if one, err = q.Schedule(s.Context, one.Name); err == nil {
						one.Times = nil
						err = s.PrintJSON(one)
					}
				}
				if err != nil {
					return err
				}
				rows = append(rows, []string{nextOf(&one), fmt.Sprint(one.Counts.Fired),
					fmt.Sprint(one.Counts.Missed), fmt.Sprint(one.Counts.Overlapped), one.Spec, one.Zone, one.Name})
			}
			if len(rows) == 1 {
				s.Say("no schedules")
				return session.ExitError(session.ExitNothing)
			}
			if s.Global.JSON {
				return nil
			}
			return show.Table(s.Stdout, rows)
		},
	}
}

// nextOf says when a schedule fires next, or why it does not.
func nextOf(s *client.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Done:
		return "done"
	case s.Full:
		return "full"
	}
	return s.Next.Format(time.RFC3339)
}

// scheduleText is a schedule for people.
func scheduleText(s *client.Schedule) string {
	var b strings.Builder
	fmt.Fprintf(&b, "spec: %s\nzone: %s\nnext: %s\n", s.Spec, s.Zone, nextOf(s))
	if !s.Last.IsZero() {
		fmt.Fprintf(&b, "last: %s\n", s.Last.Format(time.RFC3339))
	}
	for _, bound := range []struct {
		name string
		at   *time.Time
	}{{"start", s.Start}, {"end", s.End}} {
		if bound.at != nil {
			fmt.Fprintf(&b, "%s: %s\n", bound.name, bound.at.Format(time.RFC3339))
		}
	}
	fmt.Fprintf(&b, "count: %d\noverlap: %s\ncatch_up: %s\nmissed: %s\njitter: %s\n", s.Count, s.Overlap, s.CatchUp, s.Missed, s.Jitter)
	fmt.Fprintf(&b, "counts: %d fired, %d missed, %d overlapped\n", s.Counts.Fired, s.Counts.Missed, s.Counts.Overlapped)
	return strings.TrimSuffix(b.String(), "\n")
}

func (s schedules) showCommand() *cobra.Command {
	return s.oneCommand("show", "show a schedule", "Shows a schedule.", func(q *client.Queue, name string) error {
		one, err := q.Schedule(s.Context, name)
		if err != nil {
			return err
		}
		return s.Answer(one, "%s", scheduleText(&one))
	})
}

func (s schedules) nextCommand() *cobra.Command {
	return &cobra.Command{
		Use: "next <queue> <name> [<field>=<value>...]", Args: session.Arguments(2, session.AnyNumber),
		Short: "show the next times of a schedule",
		Long: `Shows the next times of a schedule. With fields it shows those that the schedule
would have, and changes nothing; the schedule need not exist. The fields:
` + scheduleFields,
		Example: `  # what does a spec mean?
  pq schedule next reports new spec='0 12 * * sun' zone=Europe/Berlin`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			var times []time.Time
			if change, err := parseSchedule(args[2:]); err != nil {
				return err
			} else if len(args) > 2 {
				if times, err = q.ScheduleTimes(s.Context, args[1], change); err != nil {
					return err
				}
			} else {
				one, err := q.Schedule(s.Context, args[1])
				if err != nil {
					return err
				}
				times = one.Times
			}
			if s.Global.JSON {
				return s.PrintJSON(protocol.ScheduleTimes{Times: times})
			}
			if len(times) == 0 {
				s.Say("no times")
				return session.ExitError(session.ExitNothing)
			}
			for _, at := range times {
				if err := s.Printf("%s", at.Format(time.RFC3339)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (s schedules) runCommand() *cobra.Command {
	id := ""
	c := s.oneCommand("run", "push the item of a schedule now", `Pushes the item of a schedule now, and prints its id. If an earlier item still lives
it may be that one's: see overlap.`, func(q *client.Queue, name string) error {
		pushed, err := q.RunSchedule(s.Context, name, id)
		if err != nil {
			return err
		}
		return s.Answer(show.ShownPush(q.Name(), *pushed), "%s", pushed.ID)
	})
	c.Flags().StringVar(&id, "id", id, "push once with this message `id`")
	return c
}

func (s schedules) pauseCommand() *cobra.Command {
	return s.oneCommand("pause", "stop a schedule", "Stops a schedule. Times that pass until it is resumed are no misses.", func(q *client.Queue, name string) error {
		one, err := q.PauseSchedule(s.Context, name)
		if err != nil {
			return err
		}
		return s.Answer(one, "next: %s", nextOf(&one))
	})
}

func (s schedules) resumeCommand() *cobra.Command {
	anew := false
	c := s.oneCommand("resume", "start a schedule again", `Starts a schedule again. One that lies far ahead, because a clock was wrong, begins
anew with --from-now; it may then fire for a time again.`, func(q *client.Queue, name string) error {
		one, err := q.ResumeSchedule(s.Context, name, anew)
		if err != nil {
			return err
		}
		return s.Answer(one, "next: %s", nextOf(&one))
	})
	c.Flags().BoolVar(&anew, "from-now", anew, "begin with the first time after now, whatever has fired")
	return c
}

func (s schedules) rmCommand() *cobra.Command {
	return s.oneCommand("rm", "remove a schedule", "Removes a schedule. What it has pushed stays.", func(q *client.Queue, name string) error {
		return q.DeleteSchedule(s.Context, name)
	})
}
