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
