package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

func explainCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "explain <queue> [<id>]", Args: session.Arguments(1, 2),
		Short: "say why nothing of a queue moves, or why an item waits",
		Long: `Says why no item of a queue is handed out, or why one item is not: a word for the
cause, a sentence, and what to do. "pq help admin.md" explains the words. Items that
flow have the word flows.

While no pqd is active in a cluster, or most are away, it says so, and fails with
exit code 4.`,
		Example: `  # orders stand still
  pq explain orders

  # one of them
  pq explain orders FBUBAX_Af0DSUlItAA

  # for a script
  pq explain orders --json | jq -r .cause`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := s.Connect()
			if err != nil {
				return err
			}
			e, err := explained(s, c.Queue(args[0]), args[1:])
			switch {
			case err != nil:
				return ofCluster(s, err)
			case e == nil:
				return errors.New("the item fills its answer, which has no room to say why: see pq info and pq peek")
			case s.Global.JSON:
				return s.PrintJSON(e)
			}
			text := fmt.Sprintf("%s: %s\n", e.Cause, show.Harmless(e.Text))
			if next := show.NextStep(args[0], e); next != "" {
				text += "next: " + next + "\n"
			}
			return s.Print(text)
		},
	}
}

// explained asks about a queue, or about the item of an id.
func explained(s *session.Session, q *client.Queue, id []string) (*client.Explain, error) {
	if len(id) == 0 {
		info, err := q.Info(s.Context)
		if err != nil {
			return nil, err
		}
		return &info.Explain, nil
	}
	item, err := q.Get(s.Context, id[0], client.WithExplanation())
	if err != nil {
		return nil, err
	}
	return item.Explain, nil
}

// ofCluster says of a queue that nobody serves that no pqd of its cluster is active, or that most of them are away, if that is why.
func ofCluster(s *session.Session, err error) error {
	if !errors.Is(err, client.ErrUnavailable) {
		return err
	}
	cluster := s.Cluster()
	var refused *client.Error
	if cluster == nil || !errors.As(err, &refused) {
		return err
	}
	text := "takeover: no pqd is active"
	switch active := cluster.Members[0].Role == protocol.RoleActive; {
	case active && !show.MostAreSilent(cluster):
		return err
	case active:
		text = "no quorum"
	}
	if silence := show.Silence(cluster); silence != "" {
		text += ": " + silence
	}
	// The cause of the refusal would have a hint that says the same again.
	return session.Told(&client.Error{Op: refused.Op, Queue: refused.Queue, Code: refused.Code, Description: text})
}
