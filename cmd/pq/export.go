package main

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/named"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// exporting are the flags of export.
type exporting struct {
	output string
	force  bool
	states []client.State

	definitions protocol.Definitions // that were read,
	left        []string             // and why others were not
}

func exportCommand(s *session.Session) *cobra.Command {
	e := &exporting{}
	c := &cobra.Command{
		Use: "export <queue>", Args: session.Arguments(1, 1),
		Short: "write the items of a queue as JSON lines",
		Long: `Writes all items of a queue, one JSON object a line, in the order of their
priorities and of their pushes, and removes none. "pq import" puts them where
they stood, here or in another store. Payloads and headers that are not UTF-8 are
written in base64. The last line has the number of items, a checksum, the queue's
configuration, and the schedules, sources and links that this user may read; "jq
'select(.id)'" leaves it out.

It is no snapshot: to get every item exactly once, pause the queue, its schedules,
sources and links, and wait until no item is leased. Leased items are written like
the others, and are ready after an import. Settings of single keys are in the last
line, too.`,
		Example: `  # to a file
  pq pause jobs && pq export jobs -o jobs.jsonl

  # to another server
  pq export jobs | pq --server nats://other import jobs`,
		RunE: func(_ *cobra.Command, args []string) error { return e.run(s, args) },
	}
	f := c.Flags()
	f.StringVarP(&e.output, "output", "o", e.output, "`file` to write; standard output if not given")
	f.BoolVarP(&e.force, "force", "f", e.force, "overwrite the file if it exists")
	f.Func("state", "only items in this `state`: ready, leased or delayed; may be repeated", func(s string) error {
		switch state := client.State(s); state {
		case client.Ready, client.Leased, client.Delayed:
			e.states = append(e.states, state)
			return nil
		}
		return errors.New("expected ready, leased or delayed")
	})
	return c
}

func (e *exporting) run(s *session.Session, args []string) (err error) {
	if len(e.states) == 0 {
		e.states = []client.State{client.Ready, client.Delayed, client.Leased}
	}
	c, err := s.ConnectPatiently()
	if err != nil {
		return err
	}
	q := c.Queue(args[0])
	info, err := q.Info(s.Context)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, state := range e.states {
		total += map[client.State]int64{client.Ready: info.Ready, client.Leased: info.Leased, client.Delayed: info.Delayed}[state]
	}
	keys, err := settingsOfKeys(s, q, info.KeysSet)
	if err != nil {
		return err
	}
	// In front of the items: what a source pushes meanwhile comes twice, and is not lost.
	if e.definitions, e.left, err = named.Read(q, s.Allowed); err != nil {
		return err
	}
	n, err := e.save(s, q, total, &info.Config, keys)
	if err != nil {
		return err
	}
	s.Say("exported %s", show.Many(n, "item"))
	if len(keys) > 0 {
		s.Say("exported the settings of %s", show.Many(int64(len(keys)), "key"))
	}
	e.sayDefinitions(s)
	if after, err := q.Info(s.Context); err == nil && n > 0 && (after.Leased > 0 || n != total || changed(info, after)) {
		s.Say("the queue was in use, so this need not be all of it: see \"pq help export\"")
	}
	return nil
}

func (e *exporting) sayDefinitions(s *session.Session) {
	d := &e.definitions
	if count := named.Count(len(d.Schedules), len(d.Sources), len(d.Links)); count != "" {
		s.Say("exported %s", count)
	}
	for _, l := range d.Links {
		if l.Held > 0 {
			s.Say("the link %s holds %s, which the other store may have already", l.Name, show.Many(int64(l.Held), "item"))
		}
	}
	for _, text := range e.left {
		s.Say("%s", text)
	}
}

// changed reports whether something was done with a queue between two looks at it. Rates only
// fall while nothing happens.
func changed(before, after *client.Info) bool {
	b, a := &before.Rates, &after.Rates
	return before.Ready != after.Ready || before.Leased != after.Leased || before.Delayed != after.Delayed || before.Bytes != after.Bytes ||
		a.Push > b.Push || a.Pop > b.Pop || a.Settle > b.Settle
}

// settingsOfKeys reads the settings of so many keys.
func settingsOfKeys(s *session.Session, q *client.Queue, n int64) (map[string]client.KeySettings, error) {
	keys := make(map[string]client.KeySettings)
	if n == 0 {
		return keys, nil
	}
	for k, err := range q.Keys(s.Context, "") {
		if err != nil {
			return nil, err
		}
		if k.Settings != (client.KeySettings{}) {
			keys[k.Key] = k.Settings
		}
		if int64(len(keys)) == n {
			break
		}
	}
	return keys, nil
}

// save writes the export to the output of the flags.
func (e *exporting) save(s *session.Session, q *client.Queue, total int64, config *client.Config, keys map[string]client.KeySettings) (n int64, err error) {
	if e.output == "" {
		return e.write(s, q, s.Stdout, total, config, keys)
	}
	file, err := createOutput(e.output, e.force)
	if err != nil {
		return 0, err
	}
	defer func() { err = file.end(err) }()
	return e.write(s, q, file, total, config, keys)
}

// exportPage is how many items are asked for at a time.
const exportPage = 1000

func (e *exporting) write(s *session.Session, q *client.Queue, out io.Writer, total int64,
	config *client.Config, keys map[string]client.KeySettings) (n int64, err error) {
	p := s.Progress("exporting", total, show.Thousands)
	defer p.End()
	buffered := bufio.NewWriterSize(out, 1<<16)
	var lines io.Writer = buffered
	if e.output == "" {
		lines = s.OfJSON(lines)
	}
	export := protocol.NewExportWriter(lines)
	export.Definitions = e.definitions
	lists := make([]iter.Seq2[client.Listed, error], len(e.states))
	for i, state := range e.states {
		lists[i] = q.List(s.Context, client.ListOptions{State: state, Bodies: true, Attempts: true, Progress: true, Page: exportPage})
	}
	for l, err := range ahead(merged(lists)) {
		if err != nil {
			return export.Items(), err
		}
		i := show.Listed(&l)
		i.Cause = ""                                                                     // which follows from what it has
		if l.Body == nil || l.Header == nil || l.Attempts > 0 && l.LastAttempts == nil { // too large for a list
			whole, err := q.Get(s.Context, l.ID, client.WithAttempts())
			if errors.Is(err, client.ErrNotFound) {
				continue // it was taken meanwhile
			}
			if err != nil {
				return export.Items(), err
			}
			i.SetPayload(whole.Payload)
			i.SetHeaders(whole.Header)
			i.Dead, i.LastAttempts = whole.Dead, whole.LastAttempts
		}
		if err := export.Write(&i.Item); err != nil {
			return export.Items(), err
		}
		p.Add(1)
	}
	if err := export.End(q.Name(), config, keys); err != nil {
		return export.Items(), err
	}
	return export.Items(), buffered.Flush()
}

// ahead reads a list up to two pages ahead of its caller.
func ahead(list iter.Seq2[client.Listed, error]) iter.Seq2[client.Listed, error] {
	type entry struct {
		item client.Listed
		err  error
	}
	return func(yield func(client.Listed, error) bool) {
		entries, enough := make(chan entry, 2*exportPage), make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer close(entries)
			for item, err := range list {
				select {
				case entries <- entry{item, err}:
				case <-enough:
					return
				}
			}
		}()
		defer func() { <-ended }()
		defer close(enough)
		for e := range entries {
			if !yield(e.item, e.err) {
				return
			}
		}
	}
}

// merged makes one list of several, all in the order of priorities and pushes.
func merged(lists []iter.Seq2[client.Listed, error]) iter.Seq2[client.Listed, error] {
	return func(yield func(client.Listed, error) bool) {
		type head struct {
			item client.Listed
			next func() (client.Listed, error, bool)
		}
		var heads []*head
		for _, list := range lists {
			next, stop := iter.Pull2(list)
			defer stop()
			heads = append(heads, &head{next: next})
		}
		advance := func(h *head) (ok bool) {
			var err error
			if h.item, err, ok = h.next(); ok && err != nil {
				yield(client.Listed{}, err)
				heads = nil
			}
			return ok && err == nil
		}
		for i := 0; i < len(heads); {
			if advance(heads[i]) {
				i++
			} else if len(heads) > 0 {
				heads = append(heads[:i], heads[i+1:]...)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if earlier(&heads[i].item, &heads[first].item) {
					first = i
				}
			}
			if !yield(heads[first].item, nil) {
				return
			}
			if !advance(heads[first]) && len(heads) > 0 {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

func earlier(a, b *client.Listed) bool {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Pushed.Compare(b.Pushed)) < 0
}
