package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func keyCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "key", Args: cobra.ArbitraryArgs,
		Short: "show or change the settings of one key of a queue",
		Long:  `A key says whose items they are. It can have a limit, a rate, a weight or a pause of its own.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return session.UnknownCommand(c, args[0])
			}
			return session.Usagef("found no command behind key: expected show, set, pause or resume")
		},
	}
	c.AddCommand(keyShowCommand(s), keySetCommand(s), keyPauseCommand(s), keyResumeCommand(s))
	return c
}

func keyShowCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "show <queue> <key>", Args: session.Arguments(2, 2),
		Short: "show a key",
		Long:  `Shows how many items a key has, what holds for it, and why its first item waits.`,
		Example: `  # why Ann's items wait
  pq key show jobs ann`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			k, err := q.Key(s.Context, args[1])
			if err != nil {
				return err
			}
			if s.Global.JSON {
				return s.PrintJSON(k)
			}
			return s.Print(keyText(&k))
		},
	}
}

func keyText(k *client.KeyInfo) string {
	var b strings.Builder
	row := keyRow(k)
	for i, name := range [...]string{"ready", "leased", "limit", "rate", "cost rate", "cost left", "weight", "waits for"} {
		if k.CostRate != "" || !strings.HasPrefix(name, "cost") {
			fmt.Fprintf(&b, "%s: %s\n", name, row[i])
		}
	}
	if k.Tokens != nil {
		fmt.Fprintf(&b, "tokens: %d\n", *k.Tokens)
	}
	if k.Retry > 0 {
		fmt.Fprintf(&b, "next token in: %s\n", k.Retry)
	}
	fmt.Fprintf(&b, "settings:%s\n", keySettings(&k.Settings))
	return b.String()
}

// keySettings are settings of a key as "pq key set" takes them.
func keySettings(k *client.KeySettings) string {
	var b strings.Builder
	if k.Limit != nil {
		fmt.Fprintf(&b, " limit=%d", *k.Limit)
	}
	for _, of := range [...]struct {
		name string
		rate *string
	}{{"rate", k.Rate}, {"cost_rate", k.CostRate}} {
		if of.rate != nil {
			fmt.Fprintf(&b, " %s=%s", of.name, cmp.Or(*of.rate, "none"))
		}
	}
	if k.Weight != nil {
		fmt.Fprintf(&b, " weight=%d", *k.Weight)
	}
	if k.Paused != nil {
		fmt.Fprintf(&b, " paused=%t", *k.Paused)
	}
	if b.Len() == 0 {
		return " none"
	}
	return b.String()
}

func keySetCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "set <queue> <key> <setting>=<value>...", Args: session.Arguments(3, session.AnyNumber),
		Short: "change settings of a key",
		Long: `Changes settings of a key. Without a value a setting is dropped, and that of the
queue holds again. The settings:

  limit   items of the key that are leased at a time; 0: no limit
  rate    of its deliveries, such as 100/1m; none: no bound
  weight  its share where keys take turns, 1 to 1000
  paused  whether its items are kept from being popped: true or false
  cost_rate  of the cost of its deliveries, such as 1440/1s; none: no bound`,
		Example: `  # five calls at a time, and a hundred a minute
  pq key set jobs ann limit=5 rate=100/1m

  # as the queue is configured
  pq key set jobs ann limit= rate=`,
		RunE: func(_ *cobra.Command, args []string) error {
			change, err := parseKeyChange(args[2:])
			if err != nil {
				return err
			}
			return setKey(s, args[0], args[1], change)
		},
	}
}

func setKey(s *session.Session, queue, key string, change client.KeyChange) error {
	q, err := s.Queue(queue)
	if err != nil {
		return err
	}
	settings, err := q.SetKey(s.Context, key, change)
	if err != nil {
		return err
	}
	return s.Answer(settings, "settings:%s", keySettings(&settings))
}

// parseKeyChange reads <setting>=<value>.
func parseKeyChange(args []string) (change client.KeyChange, err error) {
	seen := make(map[string]bool)
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return change, session.Usagef("%q: expected <setting>=<value>", arg)
		}
		if seen[name] {
			return change, session.Usagef("%s is given twice", name)
		}
		seen[name] = true
		switch name {
		case "limit":
			err = keyNumber(text, &change.Limit)
		case "weight":
			err = keyNumber(text, &change.Weight)
		case "rate", "cost_rate":
			rate := &text
			if text == "none" {
				rate = new("")
			}
			if name == "rate" {
				change.Rate = rate
			} else {
				change.CostRate = rate
			}
		case "paused":
			var paused bool
			paused, err = strconv.ParseBool(text)
			change.Paused = &paused
		default:
			return change, session.Usagef("no setting %q: expected one of limit, rate, weight, paused, cost_rate", name)
		}
		if text == "" {
			err, change.Drop = nil, append(change.Drop, name)
		}
		if err != nil {
			return change, session.Usagef("%s: %q: expected %s", name, text, map[string]string{
				"limit": "an integer", "weight": "an integer", "paused": "true or false"}[name])
		}
	}
	return change, nil
}

func keyNumber(text string, to **int64) error {
	n, err := strconv.ParseInt(text, 10, 64)
	*to = &n
	return err
}

func keyPauseCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "pause <queue> <key>", Args: session.Arguments(2, 2),
		Short: "keep the items of a key from being popped",
		Long: `Keeps the items of a key from being popped until "pq key resume". Its pushes and
leases, and other keys, go on.`,
		Example: `  # an API that has had enough
  pq key pause calls api.example.com`,
		RunE: func(_ *cobra.Command, args []string) error {
			return setKey(s, args[0], args[1], client.KeyChange{KeySettings: client.KeySettings{Paused: new(true)}})
		},
	}
}

func keyResumeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "resume <queue> <key>", Args: session.Arguments(2, 2),
		Short: "let the items of a key be popped again",
		Long:  `Ends the pause that "pq key pause" began.`,
		Example: `  # the next call may go
  pq key resume calls api.example.com`,
		RunE: func(_ *cobra.Command, args []string) error {
			return setKey(s, args[0], args[1], client.KeyChange{Drop: []string{"paused"}})
		},
	}
}

func keysCommand(s *session.Session) *cobra.Command {
	count, after := 20, ""
	c := &cobra.Command{
		Use: "keys <queue>", Args: session.Arguments(1, 1),
		Short: "list the keys of a queue",
		Long: `Lists the keys that have ready or leased items, or settings of their own, and why
the first item of each has to wait. If there are none the exit code is 3.`,
		Example: `  # whose items wait
  pq keys jobs

  # all keys, as JSON
  pq keys jobs -n 0 --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			return printKeys(s, q, after, count)
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.StringVar(&after, "after", after, "start behind this `key`")
	return c
}

func printKeys(s *session.Session, q *client.Queue, after string, most int) error {
	rows := [][]string{{"READY", "LEASED", "LIMIT", "RATE", "COST RATE", "COST LEFT", "WEIGHT", "WAITS FOR", "KEY"}}
	costs := false
	n, last, more := 0, "", false
	for k, err := range q.Keys(s.Context, after) {
		if err != nil {
			return err
		}
		if more = most > 0 && n == most; more {
			break
		}
		n++
		last = k.Key
		if s.Global.JSON {
			if err := s.PrintJSON(k); err != nil {
				return err
			}
			continue
		}
		costs = costs || k.CostRate != ""
		rows = append(rows, keyRow(&k))
	}
	switch {
	case n == 0:
		s.Say("no keys")
		return session.ExitError(session.ExitNothing)
	case s.Global.JSON:
		return nil
	}
	if !costs {
		rows = show.Without(rows, "COST RATE", "COST LEFT")
	}
	if err := show.Table(s.Stdout, rows); err != nil {
		return err
	}
	if more {
		s.Say("there are more: --count, or --after %q", last)
	}
	return nil
}

func keyRow(k *client.KeyInfo) []string {
	ready := fmt.Sprint(k.Ready)
	if k.More {
		ready += "+"
	}
	limit, left := "-", "-"
	if k.Limit > 0 {
		limit = fmt.Sprint(k.Limit)
	}
	if k.CostTokens != nil {
		left = fmt.Sprint(*k.CostTokens)
	}
	waits := cmp.Or(k.WaitsFor, "-")
	return []string{ready, fmt.Sprint(k.Leased), limit, cmp.Or(k.Rate, "-"), cmp.Or(k.CostRate, "-"), left, fmt.Sprint(k.Weight), waits, k.Key}
}
