package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/named"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// sources are the commands about sources.
type sources struct{ definitions }

func sourceCommand(s *session.Session) *cobra.Command {
	w := sources{definitions{s, "source", "jobs orders"}}
	return w.command(&cobra.Command{
		Use:   "source",
		Short: "feed a queue from a JetStream stream, or from a link",
		Long:  "A source feeds a queue from a JetStream stream, or from a queue of another store: each\nmessage, or item, becomes one item, once.",
	},
		w.setCommand(), w.lsCommand(), w.showCommand(), w.pauseCommand(), w.resumeCommand(), w.rmCommand())
}

func (s sources) setCommand() *cobra.Command {
	from, run := "", false
	c := &cobra.Command{
		Use: "set <queue> <name> <field>=<value>...", Args: session.Arguments(1, session.AnyNumber),
		Short: "make or change a source",
		Long: `Makes a source, or changes the fields that are named:

  remote    where the stream is: a name in PQ_REMOTES of pqd
  stream    its name
  queue     instead of a stream: the prefix and queue of another pqd
  link      of a queue: its link
  mode      copy: leaves messages there; take: acknowledges them
  filter    subjects, separated by spaces; empty: all
  start     first, new, a sequence, or a time such as 2027-01-31T09:00:00Z
  map       what items have, as JSON: '{"priority":{"header":"Prio"}}'
  batch     messages of a transaction; of a link items of a batch
  paused    true or false

With --from it reads the lines that "pq source ls --json" prints, and makes these
sources. They are paused, unless --run is given, and begin at their start.`,
		Example: `  # orders by their header Prio, those without it behind them
  pq source set jobs orders remote=hub stream=ORDERS map='{"priority":{"header":"Prio","default":"9"}}'

  # the items of another pqd's queue, by its link
  pq source set jobs edge7 remote=edge7 queue=edge7.orders link=hub

  # the sources of one queue for another one
  pq source ls jobs --json | pq source set copies --from -`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			switch {
			case from != "" && len(args) > 1:
				return session.Usagef("--from %s: expected the queue alone", from)
			case from != "":
				return s.from(q, from, run)
			case run:
				return session.Usagef("--run is about the lines of --from")
			case len(args) < 2:
				return session.Usagef("found no name: expected <queue> <name> <field>=<value>...")
			}
			change, err := parseSource(args[2:])
			if err != nil {
				return err
			}
			set, err := q.SetSource(s.Context, args[1], change)
			return s.answer(q, set, err)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", from, "read sources from this `file`, - for standard input")
	f.BoolVar(&run, "run", run, "let those that --from reads run as they did")
	return c
}

// parseSource reads <field>=<value>.
func parseSource(args []string) (change client.SourceChange, err error) {
	err = eachField(args, func(name, text string) error {
		switch name {
		case "remote":
			change.Remote = &text
		case "stream":
			change.Stream = &text
		case "queue":
			change.Queue = &text
		case "link":
			change.Link = &text
		case "mode":
			change.Mode = &text
		case "filter":
			change.Filter = append([]string{}, strings.Fields(text)...)
		case "start":
			change.Start = parseStart(text)
		case "map":
			if err := json.Unmarshal([]byte(text), &change.Map); err != nil || change.Map == nil {
				return session.Usagef(`map=%s: expected JSON such as {"priority":{"header":"Prio"}}`, text)
			}
		case "batch":
			n, err := strconv.Atoi(text)
			if err != nil {
				return session.Usagef("batch=%s: expected an integer", text)
			}
			change.Batch = &n
		case "paused":
			paused, err := strconv.ParseBool(text)
			if err != nil {
				return session.Usagef("paused=%s: expected true or false", text)
			}
			change.Paused = &paused
		default:
			return session.Usagef("unknown field %q: expected remote, stream, queue, link, mode, filter, start, map, batch or paused", name)
		}
		return nil
	})
	return change, err
}

// parseStart reads where a source begins. What it does not know is for the bridge to refuse.
func parseStart(text string) json.RawMessage {
	format := "%q"
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return fmt.Appendf(nil, `{"seq":%s}`, text)
	}
	if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
		format = `{"time":%q}`
	}
	return fmt.Appendf(nil, format, text)
}

// from makes the sources that lines say.
func (s sources) from(q *client.Queue, file string, run bool) error {
	return s.eachLine(file, func(line []byte) (name string, err error) {
		var read client.Source
		if json.Unmarshal(line, &read) != nil || read.Name == "" {
			return "", errLine
		}
		_, err = q.SetSource(s.Context, read.Name, named.Source(&read, read.Paused || !run))
		return read.Name, err
	})
}

func (s sources) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls <queue>", Args: session.Arguments(1, 1),
		Short: "list the sources of a queue",
		Long: `Lists the sources of a queue: what each one does, the last message that it is done
with, and how many the stream has behind that. If there are none the exit code is 3.
With --json it prints all that "pq source set --from" needs.`,
		Example: `  # does one stand?
  pq source ls jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			rows := [][]string{{"STATE", "SEQ", "LAG", "DELIVERED", "SKIPPED", "POISONED", "STREAM", "NAME"}}
			for one, err := range q.Sources(s.Context, "") {
				if err == nil && s.Global.JSON {
					err = s.PrintJSON(one)
				}
				if err != nil {
					return err
				}
				rows = append(rows, slices.Concat([]string{one.State}, numbers(one.Seq, one.Lag, one.Counts.Delivered, one.Counts.Skipped, one.Counts.Poisoned),
					[]string{one.Remote + "/" + cmp.Or(one.Stream, one.Queue+"/"+one.Link), one.Name}))
			}
			if len(rows) == 1 {
				s.Say("no sources")
				return session.ExitError(session.ExitNothing)
			}
			if s.Global.JSON {
				return nil
			}
			return show.Table(s.Stdout, rows)
		},
	}
}

func numbers(all ...any) []string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = fmt.Sprint(n)
	}
	return texts
}

// answer prints a source that was changed or asked for.
func (s sources) answer(q *client.Queue, one client.Source, err error) error {
	if err != nil {
		return err
	}
	text, err := sourceText(q.Name(), &one)
	if err != nil {
		return err
	}
	return s.Answer(one, "%s", text)
}

// sourceText is a source for people.
func sourceText(queue string, s *client.Source) (string, error) {
	var b strings.Builder
	if s.Link != "" {
		fmt.Fprintf(&b, "link: %s of %s, at %s\nstate: %s\n", s.Link, s.Queue, s.Remote, s.State)
	} else {
		fmt.Fprintf(&b, "stream: %s of %s\nmode: %s\nstate: %s\n", s.Stream, s.Remote, s.Mode, s.State)
	}
	if s.Reason != "" {
		fmt.Fprintf(&b, "reason: %s\n", s.Reason)
	}
	if !s.Since.IsZero() {
		fmt.Fprintf(&b, "since: %s\n", s.Since.Format(time.RFC3339))
	}
	for _, way := range show.SourceWays(queue, s) {
		fmt.Fprintf(&b, "to go on: %s\n", way)
	}
	if s.Link != "" {
		fmt.Fprintf(&b, "done with: batch %d", s.Seq)
	} else {
		fmt.Fprintf(&b, "done with: %d of %d", s.Seq, s.Last)
	}
	if !s.Time.IsZero() {
		fmt.Fprintf(&b, ", of %s", s.Time.Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "\nlag: %d\n", s.Lag)
	if s.Runner != "" {
		fmt.Fprintf(&b, "runner: %s\n", s.Runner)
	}
	if len(s.Filter) > 0 {
		fmt.Fprintf(&b, "filter: %s\n", strings.Join(s.Filter, " "))
	}
	if len(s.Start) > 0 {
		fmt.Fprintf(&b, "start: %s\n", s.Start)
	}
	if len(s.Map) > 0 {
		text, err := json.Marshal(s.Map)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "map: %s\n", text)
	}
	fmt.Fprintf(&b, "batch: %d\ncounts: %d delivered, %d skipped, %d poisoned", s.Batch, s.Counts.Delivered, s.Counts.Skipped, s.Counts.Poisoned)
	return b.String(), nil
}

func (s sources) showCommand() *cobra.Command {
	return s.oneCommand("show", "show a source, and how it goes on", "Shows a source. If it stands: why, and how it goes on.", func(q *client.Queue, name string) error {
		one, err := q.Source(s.Context, name)
		return s.answer(q, one, err)
	})
}

func (s sources) pauseCommand() *cobra.Command {
	return s.oneCommand("pause", "stop a source", "Stops a source. It keeps its position.", func(q *client.Queue, name string) error {
		one, err := q.PauseSource(s.Context, name)
		return s.answer(q, one, err)
	})
}

func (s sources) resumeCommand() *cobra.Command {
	var from client.SourceResume
	at := ""
	c := s.oneCommand("resume", "start a source again", `Starts a source again. One that has stopped has to hear how it goes on: "pq source
show" says what there is. Before it has stopped there is nothing to accept: --accept
then ends a pause alone, and does not hold for a later stop.`, func(q *client.Queue, name string) error {
		if at != "" {
			when, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				return session.Usagef("--from-time %s: expected a time such as 2027-01-31T09:00:00Z", at)
			}
			from.FromTime = &when
		}
		one, err := q.ResumeSource(s.Context, name, from)
		return s.answer(q, one, err)
	})
	f := c.Flags()
	f.Uint64Var(&from.FromSeq, "from-seq", 0, "go on with the message of this `sequence`; what was pushed already comes again")
	f.StringVar(&at, "from-time", at, "go on with the first message of this `time`")
	f.BoolVar(&from.Skip, "skip", false, "pass over the poisoned message")
	f.BoolVar(&from.Accept, "accept", false, "take the stream, and the consumer, or the link, as they are now")
	return c
}

func (s sources) rmCommand() *cobra.Command {
	return s.oneCommand("rm", "remove a source", `Removes a source. What it has pushed stays, and so does the consumer of one that takes.`, func(q *client.Queue, name string) error {
		return q.DeleteSource(s.Context, name)
	})
}
