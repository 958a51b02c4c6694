package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

func deadCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "dead", Args: cobra.ArbitraryArgs, SuggestFor: []string{"failed", "failures", "retry", "requeue"},
		Short: "list, count or requeue dead letters",
		Long:  `Dead letters are items that a queue has given up.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return session.UnknownCommand(c, args[0])
			}
			return session.Usagef("found no command behind dead: expected list, groups or requeue")
		},
	}
	c.AddCommand(deadListCommand(s), deadGroupsCommand(s), deadRequeueCommand(s))
	return c
}

func deadListCommand(s *session.Session) *cobra.Command {
	count, shows := 20, deadShown{}
	c := &cobra.Command{
		Use: "list <queue>", Args: session.Arguments(1, 1),
		Short: "list the dead letters of a queue",
		Long: `Lists the items that a queue has given up: they failed too often, were terminated,
or outlived their TTL if the queue keeps those. CAUSE is what an item failed of last:
the reason of its last attempt, or of its death. If there are none the exit code is
3.`,
		Example: `  # why items failed
  pq dead list jobs

  # those that failed of one cause
  pq dead list jobs --cause 'timeout*'

  # and what they are
  pq dead list jobs --bodies`,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			holders, err := deadletters.Letters(s, c, args[0])
			if err != nil {
				return err
			}
			return listDead(s, holders, args[0], count, shows)
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.StringVar(&shows.cause, "cause", shows.cause, "list those that failed of this `text`, which may end in *")
	f.BoolVarP(&shows.bodies, "bodies", "b", shows.bodies, "show payloads, too; with --json they always are")
	f.BoolVar(&shows.attempts, "attempts", shows.attempts, "show how the last lease without success ended")
	return c
}

// deadShown is what a list of dead letters shows besides the usual, and of which.
type deadShown struct {
	bodies, attempts bool
	cause            string // "": any
}

// has reports whether the list is about an item.
func (d *deadShown) has(l *client.Listed) bool {
	beginning, open := strings.CutSuffix(d.cause, "*")
	return d.cause == "" || l.Cause == beginning || open && l.Cause != "" && strings.HasPrefix(l.Cause, beginning)
}

func listDead(s *session.Session, holders []*client.Queue, origin string, most int, shows deadShown) error {
	rows := [][]string{{"ID", "PRIORITY", "DIED", "DELIVERIES", "SIZE", "CAUSE"}}
	if shows.attempts {
		rows[0] = append(rows[0], "LAST ATTEMPT")
	}
	if shows.bodies {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	var options []client.GetOption
	if shows.attempts {
		options = append(options, client.WithAttempts())
	}
	n := 0
	err := deadletters.Each(s, holders, origin, client.ListOptions{Attempts: shows.attempts}, func(dead *client.Queue, l *client.Listed) (bool, error) {
		if !shows.has(l) {
			return true, nil
		}
		var whole *client.Item
		if s.Global.JSON || shows.bodies {
			var err error
			if whole, err = dead.Get(s.Context, l.ID, options...); errors.Is(err, client.ErrNotFound) {
				return true, nil // it was taken meanwhile
			}
			if err != nil {
				return false, err
			}
		}
		n++
		if s.Global.JSON {
			item := show.Shown(whole)
			item.Cause = l.Cause
			return n != most, s.PrintJSON(item)
		}
		row := []string{l.ID, fmt.Sprint(l.Priority), deadletters.Died(l.Dead.At, time.Now()),
			fmt.Sprint(l.Dead.Deliveries), show.Size(l.Size), cmp.Or(l.Cause, l.Dead.Reason)}
		if shows.attempts {
			row = append(row, show.LastAttempt(l))
		}
		if shows.bodies {
			row = append(row, show.Excerpt(whole.Payload))
		}
		rows = append(rows, row)
		return n != most, nil
	})
	switch {
	case err != nil || s.Global.JSON && n > 0:
		return err
	case n == 0:
		if shows.cause != "" {
			s.Say("%s has no dead letters of this cause", origin)
		} else {
			s.Say("%s has no dead letters", origin)
		}
		return session.ExitError(session.ExitNothing)
	}
	return show.Table(s.Stdout, rows)
}

func deadGroupsCommand(s *session.Session) *cobra.Command {
	count := 5000
	c := &cobra.Command{
		Use: "groups <queue>...", Args: session.Arguments(1, session.AnyNumber),
		Short: "count the dead letters of queues by their cause",
		Long: `Counts the dead letters of queues by what they failed of last, the most first. Ids
and numbers of four and more digits are #: they make no group of their own. If there
are none the exit code is 3.`,
		Example: `  # why items fail
  pq dead groups jobs mail

  # of all dead letters, however many
  pq dead groups jobs --count 0`,
		RunE: func(_ *cobra.Command, queues []string) error {
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			for _, queue := range queues {
				if err := subjects.CheckQueue(queue); err != nil {
					return session.Usagef("%w", err)
				}
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			return groupDead(s, c, queues, count)
		},
	}
	c.Flags().IntVarP(&count, "count", "n", count, "look at most at this `number` of each queue, 0 for all")
	return c
}

func groupDead(s *session.Session, c *client.Client, queues []string, most int) error {
	groups, more := deadletters.Groups{}, []string(nil)
	for _, queue := range queues {
		holders, err := deadletters.Letters(s, c, queue)
		if err != nil {
			return err
		}
		n := 0
		err = deadletters.Each(s, holders, queue, client.ListOptions{Page: groupPage}, func(_ *client.Queue, l *client.Listed) (bool, error) {
			if most > 0 && n == most {
				more = append(more, queue)
				return false, nil
			}
			n++
			groups.Add(l)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	all := groups.Largest()
	if len(all) == 0 {
		s.Say("no dead letters")
		return session.ExitError(session.ExitNothing)
	}
	rows := [][]string{{"QUEUE", "ITEMS", "LAST DIED", "CAUSE"}}
	for _, group := range all {
		if s.Global.JSON {
			if err := s.PrintJSON(group); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{group.Queue, show.Thousands(group.Items), deadletters.Died(group.Last, time.Now()), cmp.Or(group.Cause, "-")})
	}
	if !s.Global.JSON {
		if err := show.Table(s.Stdout, rows); err != nil {
			return err
		}
	}
	if len(more) > 0 {
		s.Say("looked at the %s most urgent ones of %s: --count 0 looks at all", show.Thousands(int64(most)), strings.Join(more, ", "))
	}
	return nil
}

// groupPage is how many dead letters one request of groups reads.
const groupPage = 1000

func deadRequeueCommand(s *session.Session) *cobra.Command {
	var all bool
	var many bulkFlags
	var spread time.Duration
	c := &cobra.Command{
		Use: "requeue <queue> [<id>...]", Args: session.Arguments(1, session.AnyNumber),
		Short: "push dead letters to their queue again",
		Long: `Takes dead letters out of the dead-letter queue and pushes them to the queue they
come from, with their priority, key and headers. They are new items there: their
deliveries count from 0, and they stand behind the others of their priority.

Each goes in one transaction, so after an interruption run it again. Where the queue
is full, what has no room stays a dead letter.` + whereHelp("ready"),
		Example: `  # one that "pq dead list" shows
  pq dead requeue jobs FBUBAX_Af0DSUlItAA

  # all, after the cause was removed
  pq dead requeue jobs --all

  # those that failed alike, over ten minutes
  pq dead requeue jobs --where 'cause=timeout*' --spread 10m`,
		RunE: func(_ *cobra.Command, args []string) error {
			queue, ids := args[0], args[1:]
			if many.asked() {
				if len(ids) > 0 || all {
					return session.Usagef("found --where beside ids, or --all: expected one of them")
				}
			} else if all == (len(ids) > 0) {
				return session.Usagef("expected ids, --all, or --where")
			} else if many.dryRun || spread != 0 {
				return session.Usagef("found --dry-run, or --spread: expected --where beside it")
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			holders, err := deadletters.Letters(s, c, queue)
			if err != nil {
				return err
			}
			if many.asked() {
				return many.run(s, holders, client.Bulk{Verb: client.BulkRequeue, To: queue, Spread: spread}, "requeued", "requeue")
			}
			r := &deadletters.Requeue{Session: s, To: c.Queue(queue)}
			if all {
				err = deadletters.Each(s, holders, queue, client.ListOptions{},
					func(dead *client.Queue, i *client.Listed) (bool, error) { return true, r.Item(dead, i.ID) })
			}
			for _, id := range ids {
				if err = r.Find(holders, id); err != nil {
					break
				}
			}
			s.Say("requeued %s", show.Many(r.Done, "item"))
			if err == nil && r.Done == 0 {
				err = session.ExitError(session.ExitNothing)
			}
			return err
		},
	}
	many.define(c.Flags())
	session.DurationVar(c.Flags(), &spread, "spread", "", "with --where: `duration` over which the items become ready")
	c.Flags().BoolVarP(&all, "all", "a", all, "all dead letters of the queue")
	return c
}
