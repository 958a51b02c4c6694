package top

import (
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
)

// overview is the list of queues.
type overview struct {
	order    string
	reversed bool
	begin    string   // shows the queues whose names begin so
	after    string   // the page shows those behind this name
	before   []string // after of the earlier pages
	next     string   // after of the next page, "" if there is none
	turning  bool     // another page is on its way
	fromEnd  bool     // which will be entered at its end
	answered bool     // the names are known

	names   []string // of the page, in the order of a bridge
	figures map[string]*figures.Queue
	shown   []string // names in the order of the list
	cursor  int      // in shown
	chosen  string   // the name there, once somebody has moved the cursor
	top     int      // the first line on the screen
	height  int      // how many lines there are
}

// whole reports whether the list has all queues that it could show. Otherwise it is in the
// order of the names, because any other one would need the figures of all.
func (o *overview) whole() bool { return o.after == "" && o.next == "" }

// orderNow is the column by which the list is sorted now.
func (o *overview) orderNow() string {
	if o.whole() {
		return o.order
	}
	return "name"
}

// look is what to ask for.
func (o *overview) look() look {
	l := overviewLook{after: o.after, begin: o.begin, all: o.order != "name", rows: o.height}
	if visible := o.visible(); len(visible) > 0 && o.orderNow() == "name" && !o.reversed {
		l.first = visible[0]
	} else if len(visible) > 0 && o.orderNow() == "name" {
		l.first = visible[len(visible)-1]
	}
	return l
}

// visible are the queues on the screen.
func (o *overview) visible() []string {
	return o.shown[o.top:min(len(o.shown), o.top+o.height)]
}

// missing are the visible queues of which nothing is known.
func (o *overview) missing() (names []string) {
	for _, name := range o.visible() {
		if o.figures[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// found takes the answer to a look, unless something else is wanted by now.
func (o *overview) found(l overviewLook, f overviewFound) {
	if l.after != o.after || l.begin != o.begin {
		return
	}
	o.names, o.next, o.answered = f.names, f.next, true
	kept := make(map[string]*figures.Queue, len(f.names))
	for _, name := range f.names {
		if kept[name] = f.figures[name]; kept[name] == nil && o.figures[name] != nil {
			kept[name] = o.figures[name]
		}
	}
	o.figures = kept
	if o.turning {
		o.turning, o.chosen, o.cursor, o.top = false, "", 0, 0
		if o.fromEnd {
			o.cursor = len(f.names)
		}
	}
	o.arrange()
}

// rowsFound takes the figures of some queues. Those of which there are none are gone.
func (o *overview) rowsFound(l rowsLook, f rowsFound) {
	for _, name := range l.names {
		if found := f.figures[name]; found != nil && slices.Contains(o.names, name) {
			o.figures[name] = found
		} else {
			delete(o.figures, name)
			o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
		}
	}
	o.arrange()
}

// arrange puts the list in order. The cursor stays at the queue that was chosen.
func (o *overview) arrange() {
	order := o.orderNow()
	o.shown = o.shown[:0:0]
	if order == "name" {
		o.shown = slices.Clone(o.names)
		if o.reversed && o.whole() {
			slices.Reverse(o.shown)
		}
	} else {
		var known []*figures.Queue
		var unknown []string
		for _, name := range o.names {
			if f := o.figures[name]; f != nil {
				known = append(known, f)
			} else {
				unknown = append(unknown, name)
			}
		}
		figures.Sort(known, order, o.reversed)
		for _, f := range known {
			o.shown = append(o.shown, f.Queue)
		}
		o.shown = append(o.shown, unknown...)
	}
	if at := slices.Index(o.shown, o.chosen); at >= 0 {
		o.cursor = at
	}
	o.scroll()
}

// scroll keeps the cursor on the screen, and the screen on the list.
func (o *overview) scroll() {
	o.cursor = max(0, min(o.cursor, len(o.shown)-1))
	o.top = max(0, min(o.top, o.cursor, len(o.shown)-o.height))
	if o.cursor >= o.top+o.height {
		o.top = o.cursor - o.height + 1
	}
	if o.chosen != "" && len(o.shown) > 0 {
		o.chosen = o.shown[o.cursor]
	}
}

// current is the queue at the cursor, "" if there is none.
func (o *overview) current() string {
	if o.cursor >= len(o.shown) {
		return ""
	}
	return o.shown[o.cursor]
}

// move moves the cursor, and turns the page at its end. It reports whether it did that.
func (o *overview) move(lines int) (turned bool) {
	switch {
	case o.turning || len(o.shown) == 0:
		return false
	case lines > 0 && o.cursor == len(o.shown)-1 && o.next != "":
		o.before, o.after = append(o.before, o.after), o.next
		o.turning, o.fromEnd = true, false
		return true
	case lines < 0 && o.cursor == 0 && len(o.before) > 0:
		last := len(o.before) - 1
		o.after, o.before = o.before[last], o.before[:last]
		o.turning, o.fromEnd = true, true
		return true
	}
	o.cursor = max(0, min(o.cursor+lines, len(o.shown)-1))
	o.chosen = o.shown[o.cursor]
	o.scroll()
	return false
}

// filter shows the queues whose names begin so.
func (o *overview) filter(begin string) {
	if begin == o.begin {
		return
	}
	o.begin, o.after, o.before, o.next, o.turning = begin, "", nil, "", false
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return !strings.HasPrefix(n, begin) })
	o.cursor, o.chosen, o.top, o.answered = 0, "", 0, false
	o.arrange()
}

// sortBy sorts by the column that is so many columns further.
func (o *overview) sortBy(columns int) {
	at := slices.Index(sortable, o.order) + columns
	o.order, o.reversed = sortable[(at+len(sortable))%len(sortable)], false
	o.cursor, o.chosen, o.top = 0, "", 0
	o.arrange()
}

// sortable are the orders as the keys go through them.
var sortable = []string{"rate", "name", "ready", "leased", "delayed", "dead", "oldest", "waiting", "push", "pop", "settle"}
