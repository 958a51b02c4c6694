package main

import (
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

func pauseCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "pause <queue>", Args: session.Arguments(1, 1),
		Short: "keep items from being popped",
		Long: `Keeps items from being popped until "pq resume". Pushes go on; pops find nothing,
or wait.`,
		Example: `  # before an export
  pq pause jobs && pq export jobs -o jobs.jsonl`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Pause(s.Context); err != nil {
				return err
			}
			return s.Answer(map[string]string{"queue": q.Name()}, "paused %s", q.Name())
		},
	}
}

func resumeCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "resume <queue>", Args: session.Arguments(1, 1),
		Short: "let items be popped again",
		Long:  `Ends the pause that "pq pause" began.`,
		Example: `  # after an export
  pq resume jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Resume(s.Context); err != nil {
				return err
			}
			return s.Answer(map[string]string{"queue": q.Name()}, "resumed %s", q.Name())
		},
	}
}
