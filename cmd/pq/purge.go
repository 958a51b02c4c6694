package main

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
