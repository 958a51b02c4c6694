package main

func getCommand() *command {
	var raw bool
	return &command{
		name: "get", args: "<queue> <id>", min: 2, max: 2,
		short: "show an item by its id",
		long: `Shows an item, whatever its state, and leaves it as it is. When there is none the
exit code is 3.`,
		examples: []example{
			{"all there is to know", "pq get jobs FBUBAX_Af0DSUlItAA"},
			{"the payload as it is", "pq get images FBUBAX_Af0DSUlItAA --raw > photo.jpg"},
		},
		flags: func(f *flags) { f.yes(&raw, "raw", "the payload only, as it is") },
		run: func(s *session, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			i, err := q.Get(s.ctx, args[1])
			switch {
			case err != nil:
				return err
			case raw:
				return s.print(string(i.Payload))
			case s.global.json:
				return s.printJSON(shown(i))
			}
			return s.print(shown(i).describe() + "\n" + string(line(i.Payload)))
		},
	}
}
