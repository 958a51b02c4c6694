package main

func moveCommand() *command {
	return &command{
		name: "move", args: "<queue> <id> <priority>", min: 3, max: 3,
		short: "give an item another priority",
		long: `Gives an item another priority. Its id stays, and so does its place among the
items of that priority. A leased item moves when it comes back.`,
		examples: []example{{"to the front", "pq move jobs FBUBAX_Af0DSUlItAA -100"}},
		run: func(s *session, args []string) error {
			priority, err := parsePriority(args[2])
			if err != nil {
				return usagef("the priority %q: %w", args[2], err)
			}
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Move(s.ctx, args[1], priority); err != nil {
				return err
			}
			return s.answer(map[string]any{"id": args[1], "priority": priority}, "moved to priority %d", priority)
		},
	}
}

func rmCommand() *command {
	return &command{
		name: "rm", args: "<queue> <id>...", min: 2, max: anyNumber,
		short: "remove items by their ids",
		long: `Removes items, whatever their state. Whoever works on a leased one finds the
lease lost.`,
		examples: []example{
			{"one item", "pq rm jobs FBUBAX_Af0DSUlItAA"},
			{"all delayed ones", "pq list jobs --state delayed -n 0 --json | jq -r .id | xargs pq rm jobs"},
		},
		run: func(s *session, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			for _, id := range args[1:] {
				if err := q.Remove(s.ctx, id); err != nil {
					return err
				}
				if err := s.answer(map[string]string{"id": id}, "removed %s", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func purgeCommand() *command {
	var force bool
	return &command{
		name: "purge", args: "<queue>", min: 1, max: 1,
		short: "remove all items of a queue",
		long: `Removes all items of a queue, the leased and delayed ones too, after asking. The
queue and its configuration stay.`,
		examples: []example{{"in a script", "pq purge jobs --force"}},
		flags:    func(f *flags) { f.yes(&force, "force,f", "do not ask") },
		run: func(s *session, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.ctx)
			if err != nil {
				return err
			}
			if err := s.confirm(force, "remove all %s of %s", many(info.Ready+info.Leased+info.Delayed, "item"), q.Name()); err != nil {
				return err
			}
			n, err := q.Purge(s.ctx)
			if err != nil {
				return err
			}
			return s.answer(map[string]int64{"purged": n}, "removed %s", many(n, "item"))
		},
	}
}

func deleteCommand() *command {
	var force bool
	return &command{
		name: "delete", args: "<queue>", min: 1, max: 1,
		short:    "delete a queue",
		long:     `Deletes a queue with its items and its configuration, after asking.`,
		examples: []example{{"in a script", "pq delete jobs --force"}},
		flags:    func(f *flags) { f.yes(&force, "force,f", "do not ask") },
		run: func(s *session, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.ctx)
			if err != nil {
				return err
			}
			if err := s.confirm(force, "delete %s with %s", q.Name(), many(info.Ready+info.Leased+info.Delayed, "item")); err != nil {
				return err
			}
			if err := q.Delete(s.ctx); err != nil {
				return err
			}
			return s.answer(map[string]string{"queue": q.Name()}, "deleted %s", q.Name())
		},
	}
}

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
