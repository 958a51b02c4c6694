package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/internal/testkit/vt"
	"github.com/pqbridge/pqbridge/protocol"
)

// fakeTop is a top without goroutines, clock and connection, on a terminal that a test can
// read.
type fakeTop struct {
	t        *testing.T
	model    *topModel
	screen   *screen.Screen
	terminal *vt.Screen
	now      time.Time

	queues map[string]*client.Info
	items  map[string][]client.Listed
	bodies map[string]*client.Item // by id
	silent bool                    // nobody answers
	err    error                   // the answer to every look
	looks  []look                  // what was asked for
	asked  int                     // about how many queues
}

func newFakeTop(t *testing.T, columns, lines int) *fakeTop {
	t.Helper()
	f := &fakeTop{
		t: t, terminal: vt.NewWide(columns, lines), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		queues: make(map[string]*client.Info), items: make(map[string][]client.Listed), bodies: make(map[string]*client.Item),
	}
	f.model = newTopModel(&watching{interval: time.Second, sort: "rate"}, "nats://127.0.0.1:4222", "pq")
	f.screen = screen.New(f.terminal, true)
	f.ok(f.screen.Open())
	return f
}

func (f *fakeTop) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// add adds a queue with so many ready items, and so many pushes a second.
func (f *fakeTop) add(name string, ready int64, push float64) *client.Info {
	f.queues[name] = &client.Info{Queue: name, Ready: ready, Oldest: float64(ready), OldestOfAll: float64(ready), Rates: protocol.Rates{Push: push}}
	return f.queues[name]
}

// start shows the first screen.
func (f *fakeTop) start() {
	f.t.Helper()
	cells := f.terminal.Cells()
	f.resize(len(cells[0]), len(cells))
}

func (f *fakeTop) resize(columns, lines int) {
	f.t.Helper()
	f.terminal.Resize(columns, lines)
	f.screen.Resize(columns, lines)
	f.happens(resized{columns, lines})
}

// happens tells the model, answers its looks, and draws.
func (f *fakeTop) happens(what any) {
	f.t.Helper()
	f.model.update(f.now, what)
	for n := 0; ; n++ {
		l := f.model.asks()
		if l == nil {
			break
		}
		if n > 10 {
			f.t.Fatalf("it asks again and again: %+v", l)
		}
		f.looks = append(f.looks, l)
		if f.silent {
			break
		}
		found, err := f.answer(l), f.err
		f.model.update(f.now, seen{look: l, began: f.now, took: time.Millisecond, found: found, err: err})
	}
	f.ok(f.screen.Draw(f.model.view()))
	f.ok(f.terminal.Err())
}

// press presses keys.
func (f *fakeTop) press(keys ...screen.Key) {
	f.t.Helper()
	for _, key := range keys {
		f.happens(key)
	}
}

// typed presses the keys of a text.
func (f *fakeTop) typed(text string) {
	f.t.Helper()
	for _, r := range text {
		f.press(screen.Key(string(r)))
	}
}

// later lets time pass, a second at a time.
func (f *fakeTop) later(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(min(time.Second, end.Sub(f.now)))
		f.happens(ticked{})
	}
}

// figures are those of some queues, with their dead letters.
func (f *fakeTop) figures(names []string) map[string]*figures.Queue {
	found := make(map[string]*figures.Queue)
	for _, name := range names {
		f.asked++
		if i := f.queues[name]; i != nil {
			found[name] = figures.New(i, f.now)
			if in := figures.Holder(i); in != "" {
				found[name].Dead = figures.Items(f.queues[in])
			}
		}
	}
	return found
}

// answer answers a look as bridges do.
func (f *fakeTop) answer(l look) any {
	switch l := l.(type) {
	case overviewLook:
		var names []string
		for name := range f.queues {
			if name > l.after && strings.HasPrefix(name, l.begin) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		found := overviewFound{names: names}
		if len(names) > mostNames {
			found.names, found.next = names[:mostNames], names[mostNames-1]
		}
		asked := found.names
		if !l.all || l.after != "" || found.next != "" {
			from, _ := slices.BinarySearch(asked, l.first)
			asked = asked[min(from, max(0, len(asked)-l.rows)):]
			asked = asked[:min(l.rows, len(asked))]
		}
		found.figures = f.figures(asked)
		return found
	case rowsLook:
		return rowsFound{f.figures(l.names)}
	case queueLook:
		found := queueFound{info: f.queues[l.queue]}
		if found.info == nil {
			return found
		}
		in := figures.Holder(found.info)
		found.dead = f.queues[in]
		list := f.items[l.queue+" "+string(l.tab)]
		if l.tab == dead {
			list = f.items[in+" ready"]
		}
		from := 1 + slices.IndexFunc(list, func(i client.Listed) bool { return i.ID == l.behind })
		list = list[from:]
		found.more = len(list) > l.rows
		found.listed = list[:min(len(list), l.rows)]
		return found
	case itemLook:
		return itemFound{f.bodies[l.id]}
	}
	f.t.Fatalf("a look that nobody knows: %+v", l)
	return nil
}

// line is a line of the screen; those below 0 count from its end.
func (f *fakeTop) line(n int) string {
	lines := f.terminal.Lines()
	if n < 0 {
		n += len(lines)
	}
	return lines[n]
}

// rows are the first cells of the rows of the list.
func (f *fakeTop) rows() (first []string) {
	for _, line := range f.terminal.Lines()[listFrame-1 : len(f.terminal.Lines())-1] {
		if cells := strings.Fields(line); len(cells) > 0 {
			first = append(first, cells[0])
		}
	}
	return first
}

// marked is the line at the cursor.
func (f *fakeTop) marked() string {
	for n, cells := range f.terminal.Cells() {
		if n >= listFrame-1 && strings.Contains(";"+cells[0].Style+";", ";7;") {
			return f.line(n)
		}
	}
	return ""
}

func (f *fakeTop) shows(texts ...string) {
	f.t.Helper()
	for _, text := range texts {
		if !strings.Contains(f.terminal.Text(), text) {
			f.t.Fatalf("expected %q on the screen:\n%s", text, f.terminal.Text())
		}
	}
}

func (f *fakeTop) hides(texts ...string) {
	f.t.Helper()
	for _, text := range texts {
		if strings.Contains(f.terminal.Text(), text) {
			f.t.Fatalf("expected no %q on the screen:\n%s", text, f.terminal.Text())
		}
	}
}

// expectRows compares the first cells.
func (f *fakeTop) expectRows(want string) {
	f.t.Helper()
	if got := strings.Join(f.rows(), " "); got != want {
		f.t.Fatalf("the rows are %s, expected %s:\n%s", got, want, f.terminal.Text())
	}
}

var errAway = errors.New("no answer")

// many adds queues q000000, q000001 and so on.
func (f *fakeTop) many(n int) {
	for i := range n {
		f.add(fmt.Sprintf("q%06d", i), int64(i), 0)
	}
}
