package main

import (
	"github.com/spf13/cobra"
)

func pauseCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "pause <queue>", Args: arguments(1, 1),
		Short: "keep items from being popped",
		Long: `Keeps items from being popped until "pq resume". Pushes go on; pops find nothing,
or wait.`,
		Example: `  # before an export
  pq pause jobs && pq export jobs -o jobs.jsonl`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Pause(s.ctx); err != nil {
				return err
			}
			return s.answer(map[string]string{"queue": q.Name()}, "paused %s", q.Name())
		},
	}
}

func resumeCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "resume <queue>", Args: arguments(1, 1),
		Short: "let items be popped again",
		Long:  `Ends the pause that "pq pause" began.`,
		Example: `  # after an export
  pq resume jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Resume(s.ctx); err != nil {
				return err
			}
			return s.answer(map[string]string{"queue": q.Name()}, "resumed %s", q.Name())
		},
	}
}
