package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// A name is that of one operation, and a row has what its readers need.
func TestOps(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, o := range protocol.Ops {
		if seen[o.Name] || o.Right == 0 || !strings.HasSuffix(o.Doc, ".") || o.Again == protocol.Reads && o.Answer == nil {
			t.Errorf("%+v: a second one, or a field is missing", o)
		}
		seen[o.Name] = true
		if found, is := protocol.OpNamed(o.Name); !is || found.Doc != o.Doc {
			t.Errorf("%s: found %+v", o.Name, found)
		}
	}
	if o, is := protocol.OpNamed("nonsense"); is || o.Again != protocol.Once {
		t.Errorf("found %+v: expected none, and that it may not be repeated", o)
	}
}

// The events for people are those of the page.
func TestEvents(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/protocol/events.md")
	for _, e := range protocol.Events {
		described := strings.Contains(page, "`"+e.Type+"`:") || strings.Contains(page, "`"+e.Type+"`,") || strings.Contains(page, "_sys.event."+e.Type+"`")
		if !described || e.Doc == "" {
			t.Errorf("docs/protocol/events.md does not describe %s", e.Type)
		}
	}
	known := func(name string) bool {
		return slices.ContainsFunc(protocol.Events, func(e protocol.EventKind) bool { return e.Type == name })
	}
	for line := range strings.Lines(page) {
		entry, is := strings.CutPrefix(line, "- `")
		if !is {
			continue
		}
		names, _, _ := strings.Cut(entry, "`:")
		for name := range strings.SplitSeq(names, "`, `") {
			name = strings.TrimPrefix(name, "pq._sys.event.")
			if name, _, _ = strings.Cut(name, "`"); name != "bridge" && !known(name) { // that of bridges is between them
				t.Errorf("docs/protocol/events.md describes %s, which is none", name)
			}
		}
	}
}
