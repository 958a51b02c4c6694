package top

import (
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
)

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
