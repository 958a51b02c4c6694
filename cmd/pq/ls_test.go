package main

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Queues that this pq cannot ask about, in a store that somebody else made or of tenants, hide no others.
func TestListsBesideStrangeNames(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.makes(t, "jobs", "../../../x", "a\x1b[2J", "b/c", "d e", "acme.jobs", "acme.mail")
	const strange = `left out 4 queues with names that no queue may have: "../../../x", "a\x1b[2J", "b/c", ... ("pqd check" looks for more)`
	const tenants = "left out 2 queues of tenants: a tenant has its own prefix, such as pq.acme\n"
	for command, want := range map[string]struct{ has, lacks []string }{
		"ls":                  {[]string{"\njobs ", tenants, strange}, nil},
		"ls --names":          {[]string{"jobs\n", "acme.jobs\n", "acme.mail\n", strange}, []string{"of tenants"}},
		"ls jo":               {[]string{"\njobs "}, []string{"left out"}},
		"ls --json":           {[]string{`"queue":"jobs"`}, []string{"left out", "acme", "x1b"}},
		"top --count 1":       {[]string{"\njobs ", "1 queue ", tenants, strange}, nil},
		"doctor":              {[]string{"warn  queues       " + strange, "1 queue"}, []string{"fail  queues"}},
		"ls ../../../x":       {[]string{"no queues that begin with"}, nil},
		"ls --names a --json": {[]string{`"queue":"acme.jobs"`}, []string{"x1b"}},
	} {
		code, text := pq(t, w.env, strings.Fields(command)...)
		if nothing := command == "ls ../../../x"; (code == session.ExitNothing) != nothing || code != 0 && !nothing && command != "doctor" {
			t.Errorf("%s: exit code %d", command, code)
		}
		for _, part := range want.has {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q, expected %q", command, text, part)
			}
		}
		for _, part := range append(want.lacks, "\x1b") {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q has %q", command, text, part)
			}
		}
	}
}

// A queue that the bridge cannot read, because a later version of it has changed the queue, hides no others.
func TestListsBesideUnreadQueues(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.makes(t, "jobs", "later", "mail")
	session := w.store.Session()
	defer session.Release()
	key := []byte("\x02q\x00\x02later\x00")
	known := []byte(nil)
	write := func(value []byte) {
		t.Helper()
		if err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
			known, err = tx.Get(key)
			tx.Set(key, value)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	write(tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(nil, 99), 1), 0))
	defer func() { write(known) }()
	const unread = `left out 1 queue that the bridge cannot read: "later": info later: queue "later": queue state has format 99: `
	for command, want := range map[string][]string{
		"ls":            {"\njobs ", "\nmail ", unread},
		"ls --json":     {`"queue":"jobs"`, `"queue":"mail"`},
		"ls --names":    {"jobs\n", "later\n", "mail\n"},
		"top --count 1": {"\njobs ", "\nmail ", unread},
		"doctor":        {"warn  queues       " + unread, "2 queues"},
	} {
		code, text := pq(t, w.env, strings.Fields(command)...)
		if code != 0 && command != "doctor" {
			t.Errorf("%s: exit code %d", command, code)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q, expected %q", command, text, part)
			}
		}
	}
	if code, text := pq(t, w.env, "ls", "later"); code != 1 || !strings.Contains(text, "format 99") {
		t.Errorf("a list of nothing else: exit code %d, %q", code, text)
	}
}

// makes makes queues as rows of the store, whatever they are called.
func (w *terminal) makes(t *testing.T, names ...string) {
	t.Helper()
	session := w.store.Session()
	defer session.Release()
	for _, name := range names {
		if err := session.Update(t.Context(), func(tx kv.Tx) error {
			_, err := w.store.Queue(name).Push(tx, fdbpq.NewItem{Payload: []byte("x")})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
