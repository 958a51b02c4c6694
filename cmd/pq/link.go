package main

import (
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
	"github.com/pqbridge/pqbridge/protocol"
)

// links are the commands about links.
type links struct{ definitions }

func linkCommand(s *session.Session) *cobra.Command {
	w := links{definitions{s, "link", "orders hub"}}
	return w.command(&cobra.Command{
		Use:   "link",
		Short: "give the items of a queue to another store",
		Long: `A link gives the items of a queue to another store, each once. That one takes them by
a source: "pq source set".`,
	},
		w.setCommand(), w.lsCommand(), w.showCommand(), w.pauseCommand(), w.resumeCommand(), w.rmCommand())
}

func (l links) setCommand() *cobra.Command {
	from, run := "", false
	c := &cobra.Command{
		Use: "set <queue> <name> <field>=<value>...", Args: session.Arguments(1, session.AnyNumber),
		Short: "make or change a link",
		Long: `Makes a link, or changes the fields that are named:

  to        the id of the store that takes the items, which "pq info" shows there
  paused    true or false

With --from it reads the lines that "pq link ls --json" prints, and makes these links.
They are paused, unless --run is given.`,
		Example: `  # the items of orders for the store of the hub
  pq link set orders hub to=5f0c6a6f2a3d4c1e8b7a9d0e1f2a3b4c`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := l.Queue(args[0])
			if err != nil {
				return err
			}
			switch {
			case from != "" && len(args) > 1:
				return session.Usagef("--from %s: expected the queue alone", from)
			case from != "":
				return l.from(q, from, run)
			case run:
				return session.Usagef("--run is about the lines of --from")
			case len(args) < 2:
				return session.Usagef("found no name: expected <queue> <name> <field>=<value>...")
			}
			var change client.LinkChange
			err = eachField(args[2:], func(name, text string) error {
				switch name {
				case "to":
					change.To = &text
				case "paused":
					paused, err := strconv.ParseBool(text)
					if err != nil {
						return session.Usagef("paused=%s: expected true or false", text)
					}
					change.Paused = &paused
				default:
					return session.Usagef("unknown field %q: expected to or paused", name)
				}
				return nil
			})
			if err != nil {
				return err
			}
			set, err := q.SetLink(l.Context, args[1], change)
			return l.answer(set, err)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", from, "read links from this `file`, - for standard input")
	f.BoolVar(&run, "run", run, "let those that --from reads run as they did")
	return c
}

// from makes the links that lines say.
func (l links) from(q *client.Queue, file string, run bool) error {
	return l.eachLine(file, func(line []byte) (name string, err error) {
		var read client.Link
		if json.Unmarshal(line, &read) != nil || read.Name == "" || read.To == "" {
			return "", errLine
		}
		_, err = q.SetLink(l.Context, read.Name, named.Link(&read, read.Paused || !run))
		return read.Name, err
	})
}

func (l links) lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls <queue>", Args: session.Arguments(1, 1),
		Short: "list the links of a queue",
		Long: `Lists the links of a queue: the number of the last batch, how many items of it the other
store has not confirmed, and how many it has in all. If there are none the exit code is
3. With --json it prints all that "pq link set --from" needs.`,
		Example: `  # does one hold items?
  pq link ls orders`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := l.Queue(args[0])
			if err != nil {
				return err
			}
			rows := [][]string{{"STATE", "BATCH", "HELD", "GIVEN", "TO", "NAME"}}
			for one, err := range q.Links(l.Context, "") {
				if err == nil && l.Global.JSON {
					err = l.PrintJSON(one)
				}
				if err != nil {
					return err
				}
				rows = append(rows, slices.Concat([]string{one.State}, numbers(one.Batch, one.Held, one.Given), []string{one.To, one.Name}))
			}
			if len(rows) == 1 {
				l.Say("no links")
				return session.ExitError(session.ExitNothing)
			}
			if l.Global.JSON {
				return nil
			}
			return show.Table(l.Stdout, rows)
		},
	}
}

// answer prints a link that was changed or asked for.
func (l links) answer(one client.Link, err error) error {
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to: %s\nstate: %s\nbatch: %d", one.To, one.State, one.Batch)
	if !one.Since.IsZero() {
		fmt.Fprintf(&b, ", of %s", one.Since.Format(time.RFC3339))
	}
	if one.State == protocol.LinkStarting {
		b.WriteString(": nobody has taken anything yet")
	}
	fmt.Fprintf(&b, "\nheld: %d\ngiven: %d", one.Held, one.Given)
	return l.Answer(one, "%s", b.String())
}

func (l links) showCommand() *cobra.Command {
	return l.oneCommand("show", "show a link", "Shows a link. What it holds is out until the other store confirms it.", func(q *client.Queue, name string) error {
		one, err := q.Link(l.Context, name)
		return l.answer(one, err)
	})
}

func (l links) pauseCommand() *cobra.Command {
	return l.oneCommand("pause", "stop a link", "Has a link give no further batch.", func(q *client.Queue, name string) error {
		one, err := q.PauseLink(l.Context, name)
		return l.answer(one, err)
	})
}

func (l links) resumeCommand() *cobra.Command {
	return l.oneCommand("resume", "start a link again", "Has a link give further batches.", func(q *client.Queue, name string) error {
		one, err := q.ResumeLink(l.Context, name)
		return l.answer(one, err)
	})
}

func (l links) rmCommand() *cobra.Command {
	force := false
	c := l.oneCommand("rm", "remove a link", `Removes a link. One that holds items is removed with --force alone: they return to their
places, although the other store may have them already.`, func(q *client.Queue, name string) error {
		returned, err := q.DeleteLink(l.Context, name, force)
		if err == nil && returned > 0 {
			l.Say("%s returned", show.Many(int64(returned), "item"))
		}
		return err
	})
	c.Flags().BoolVar(&force, "force", force, "return what it holds")
	return c
}
