package main

func pauseCommand() *command {
	return &command{
		name: "pause", args: "<queue>", min: 1, max: 1,
		short: "keep items from being popped",
		long:  `Keeps items from being popped until "pq resume". Pushes go on; pops find nothing, or wait.`,
		run: func(s *session, args []string) error {
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

func resumeCommand() *command {
	return &command{
		name: "resume", args: "<queue>", min: 1, max: 1,
		short: "let items be popped again",
		long:  `Ends what "pq pause" began.`,
		run: func(s *session, args []string) error {
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
