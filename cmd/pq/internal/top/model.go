package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// topModel is what top shows and what the keys do to it. It is without goroutines, clock
// and connection: update tells it what happened, asks returns what to ask for, and view
// returns the screen.
type topModel struct {
	now            time.Time
	columns, lines int
	interval       time.Duration
	server, prefix string

	linked  bool      // to the NATS server
	good    time.Time // when the last answered look began
	took    time.Duration
	down    time.Time // since when nobody answers; zero: somebody does
	why     string
	looking bool      // a look is on its way
	again   bool      // something else is wanted
	next    time.Time // when to look again

	list   overview
	detail *detail   // the queue that is shown
	item   *itemView // the item of it that is shown
	help   bool      // the keys are shown
	typing bool      // the filter is being typed
	ask    *question // waits for yes or no
	doing  *change   // on its way
	begin  *change   // what was confirmed and has not begun
	left   bool      // the user wants to leave
	denied error     // by the NATS server, before anything was seen
	note   screen.Line
	noted  time.Time
}

// itemView is an item with its payload, as it was at a time.
type itemView struct {
	look  itemLook
	found bool
	text  []string // the lines of the item
	lines []string // those of the screen
	width int
	at    time.Time
	top   int
}

// question asks whether to change something.
type question struct {
	text   string
	change change
}

// What happens to the model, besides keys and answers to looks.
type (
	ticked  struct{}
	resized struct{ columns, lines int }
	linked  struct{ up bool }
	refused struct{ err error } // the NATS server denies something
	done    struct {            // a change
		text string
		err  error
	}
	progressed struct{ items int64 }
	ended      struct{} // the terminal is gone
)

func newTopModel(w *watching, server, prefix string) *topModel {
	return &topModel{
		interval: w.interval, server: server, prefix: prefix, linked: true,
		list: overview{order: w.sort, figures: make(map[string]*figures.Queue)},
	}
}

// update takes what happened.
func (m *topModel) update(now time.Time, happened any) {
	m.now = now
	switch h := happened.(type) {
	case screen.Key:
		m.press(h)
	case seen:
		m.answered(h)
	case resized:
		m.columns, m.lines = h.columns, h.lines
		m.again = true
	case linked:
		m.link(h.up)
	case refused:
		if m.good.IsZero() {
			m.denied, m.left = h.err, true
		}
		m.notef(screen.Red, "not permitted: %s", session.WithoutPrefix(h.err))
	case progressed:
		m.notef(0, "%s: %s so far", m.doing, show.Many(h.items, "item"))
	case done:
		m.doing, m.again = nil, true
		if h.err != nil {
			m.notef(screen.Red, "%s: %s", h.text, session.WithoutPrefix(h.err))
		} else {
			m.notef(screen.Green, "%s", h.text)
		}
	case ended:
		m.left = true
	}
	m.layout()
}

// layout tells the lists how many lines they have.
func (m *topModel) layout() {
	m.list.height = max(1, m.lines-listFrame)
	m.list.scroll()
	if m.detail != nil {
		m.detail.height = max(1, m.lines-detailFrame)
	}
	if m.item != nil {
		m.item.wrap(m.columns)
		m.item.top = max(0, min(m.item.top, len(m.item.lines)-m.itemHeight()))
	}
}

func (m *topModel) itemHeight() int { return max(1, m.lines-itemFrame) }

// notef shows a note for some seconds.
func (m *topModel) notef(style screen.Style, format string, args ...any) {
	m.note, m.noted = screen.Line{{Text: fmt.Sprintf(format, args...), Style: style}}, m.now
}

// noteFor is how long a note is shown.
const noteFor = 8 * time.Second

func (m *topModel) link(up bool) {
	m.linked = up
	if m.again = true; !up && m.down.IsZero() {
		m.down, m.why = m.now, "the NATS server is away"
	}
}

// asks is what to ask for now, nil for nothing. There is one look at a time: whoever
// presses keys faster than answers arrive does not ask for more.
func (m *topModel) asks() look {
	if m.looking || !m.linked || m.left {
		return nil
	}
	var wanted look
	switch {
	case m.again || !m.now.Before(m.next):
		wanted, m.again = m.look(), false
	case m.detail == nil && m.down.IsZero():
		if names := m.list.missing(); len(names) > 0 {
			wanted = rowsLook{names}
		}
	}
	m.looking = wanted != nil
	return wanted
}

// begins returns a change that was confirmed, once.
func (m *topModel) begins() *change {
	c := m.begin
	m.begin = nil
	return c
}

// look is what to ask for of what is shown.
func (m *topModel) look() look {
	switch {
	case m.item != nil && !m.item.found:
		return m.item.look
	case m.detail != nil:
		return m.detail.look()
	}
	return m.list.look()
}

// answered takes the answer to a look.
func (m *topModel) answered(s seen) {
	m.looking = false
	if _, rows := s.look.(rowsLook); !rows || s.err != nil {
		m.next = m.now.Add(session.Pause(s.took, m.interval))
	}
	if s.err != nil {
		if m.down.IsZero() {
			m.down = m.now
		}
		if m.linked {
			m.why = session.WithoutPrefix(s.err)
		}
		m.list.turning = false
		return
	}
	if m.linked {
		m.down, m.why = time.Time{}, ""
	}
	m.good, m.took = s.began, s.took
	switch l := s.look.(type) {
	case overviewLook:
		m.list.found(l, s.found.(overviewFound))
	case rowsLook:
		m.list.rowsFound(l, s.found.(rowsFound))
	case queueLook:
		if m.detail != nil {
			m.detail.found(l, s.found.(queueFound), s.began)
		}
	case itemLook:
		if m.item != nil && m.item.look == l {
			m.item.show(s.found.(itemFound).item, s.began)
		}
	}
}

// fresh is how old a number may be that is shown as it is.
func (m *topModel) fresh() time.Duration { return max(3*m.interval, 3*time.Second, 4*m.took) }

// since is when the answers ended, zero if they come.
func (m *topModel) since() time.Time {
	switch {
	case !m.down.IsZero():
		return m.down
	case !m.good.IsZero() && m.now.Sub(m.good) > m.fresh():
		return m.good
	}
	return time.Time{}
}

// live reports whether numbers of that time may be shown as they are.
func (m *topModel) live(at time.Time) bool {
	return m.since().IsZero() && m.now.Sub(at) <= m.fresh()
}

// number writes a number, one that is old behind ~.
func (m *topModel) number(at time.Time, text string) string {
	if m.live(at) || text == "-" || text == "" {
		return text
	}
	return "~" + text
}

// detail is one queue with its items.
type detail struct {
	queue  string
	figure *figures.Queue // nil: not known yet
	gone   bool

	tab    client.State
	behind string   // the page shows the items behind this id
	before []string // behind of the earlier pages
	more   bool     // there is a next page
	items  []client.Listed
	listed queueLook // what the items answer
	cursor int
	chosen string // the item there
	height int
}

// tabs are the states in their order, and the dead letters.
var tabs = []client.State{client.Ready, client.Leased, client.Delayed, dead}

// look is what to ask for.
func (d *detail) look() look {
	return queueLook{queue: d.queue, tab: d.tab, behind: d.behind, rows: d.height}
}

// shows reports whether the items are those that are wanted.
func (d *detail) shows() bool {
	return d.listed.tab == d.tab && d.listed.behind == d.behind && d.figure != nil
}

// found takes the answer to a look, unless something else is wanted by now.
func (d *detail) found(l queueLook, f queueFound, at time.Time) {
	if l.queue != d.queue {
		return
	}
	d.gone = f.info == nil
	if d.gone {
		d.figure, d.items = nil, nil
		return
	}
	d.figure = figures.New(f.info, at)
	if figures.Holder(f.info) != "" {
		d.figure.Dead = figures.Items(f.dead)
	}
	if l.tab != d.tab || l.behind != d.behind {
		return
	}
	d.items, d.more, d.listed = f.listed, f.more, l
	if i := slices.IndexFunc(d.items, func(i client.Listed) bool { return i.ID == d.chosen }); i >= 0 {
		d.cursor = i
	}
	d.choose(d.cursor)
}

// choose puts the cursor at an item.
func (d *detail) choose(at int) {
	d.cursor, d.chosen = max(0, min(at, len(d.items)-1)), ""
	if d.cursor < len(d.items) {
		d.chosen = d.items[d.cursor].ID
	}
}

// current is the item at the cursor, nil if there is none.
func (d *detail) current() *client.Listed {
	if !d.shows() || d.cursor >= len(d.items) {
		return nil
	}
	return &d.items[d.cursor]
}

// in is the queue in which the items of the tab are.
func (d *detail) in() string {
	if d.tab == dead && d.figure != nil {
		return figures.Holder(d.figure.Info)
	}
	return d.queue
}

// turn shows another tab.
func (d *detail) turn(tabsOn int) {
	at := slices.Index(tabs, d.tab) + tabsOn + len(tabs)
	d.open(tabs[at%len(tabs)])
}

// open shows a tab from its beginning.
func (d *detail) open(tab client.State) {
	d.tab, d.behind, d.before, d.more, d.items = tab, "", nil, false, nil
	d.choose(0)
}

// move moves the cursor, and turns the page at its end. It reports whether it did that.
func (d *detail) move(lines int) (turned bool) {
	switch {
	case !d.shows() || len(d.items) == 0 && d.behind == "":
		return false
	case lines > 0 && d.cursor >= len(d.items)-1 && d.more:
		d.before, d.behind = append(d.before, d.behind), d.items[len(d.items)-1].ID
		d.cursor, d.chosen = 0, ""
		return true
	case lines < 0 && d.cursor == 0 && len(d.before) > 0:
		last := len(d.before) - 1
		d.behind, d.before = d.before[last], d.before[:last]
		d.cursor, d.chosen = d.height, ""
		return true
	}
	d.choose(d.cursor + lines)
	return false
}
