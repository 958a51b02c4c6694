package top

import (
	"context"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// keyHelp are the keys of each view, as help lists them.
var keyHelp = [][2]string{
	{"↑ ↓ k j", "a line up or down"},
	{"PgUp PgDn", "a page up or down; Home and End as well"},
	{"enter", "the queue, or the item, at the cursor"},
	{"esc", "back"},
	{"/", "show the queues whose names begin as typed; esc shows all"},
	{"s S", "sort by the next or previous column"},
	{"o", "the other way round"},
	{"tab ← →", "of a queue: ready, leased, delayed items, dead letters"},
	{"p", "pause the queue, or resume it"},
	{"r", "requeue: all dead letters of the queue, or the one at the cursor"},
	{"R", "of a queue: requeue all dead letters"},
	{"?", "this list"},
	{"q Ctrl-C", "leave"},
}

// press takes a key.
func (m *topModel) press(k screen.Key) {
	switch {
	case k == screen.CtrlC:
		m.left = true
	case m.ask != nil:
		m.reply(k)
	case m.typing:
		m.typeFilter(k)
	case m.help:
		m.help = false
	case k == "q":
		m.left = true
	case k == "?":
		m.help = true
	case m.item != nil:
		m.pressAtItem(k)
	case m.detail != nil:
		m.pressAtQueue(k)
	default:
		m.pressAtList(k)
	}
}

// reply takes the answer to a question.
func (m *topModel) reply(k screen.Key) {
	asked := m.ask
	switch m.ask = nil; {
	case k != "y" && k != "Y":
		m.notef(0, "nothing was done")
	case !m.since().IsZero():
		m.notef(screen.Red, "%s: nobody answers, nothing was done", asked.change)
	default:
		m.doing, m.begin = &asked.change, &asked.change
		m.notef(0, "%s …", m.doing)
	}
}

// question asks before a change. There is one at a time.
func (m *topModel) question(c change, text string) {
	switch {
	case !m.since().IsZero():
		m.notef(screen.Red, "%s: nobody answers", c)
	case m.doing != nil:
		m.notef(screen.Yellow, "%s: it is not done yet", m.doing)
	default:
		m.ask = &question{text, c}
	}
}

// steps are how far keys move the cursor, in lines or pages.
func steps(k screen.Key, page int) int {
	const far = 1 << 30
	switch k {
	case screen.Up, "k":
		return -1
	case screen.Down, "j":
		return 1
	case screen.PageUp:
		return -page
	case screen.PageDown, " ":
		return page
	case screen.Home, "g":
		return -far
	case screen.End, "G":
		return far
	}
	return 0
}

func (m *topModel) pressAtList(k screen.Key) {
	if lines := steps(k, m.list.height); lines != 0 {
		m.again = m.list.move(lines) || m.again
		return
	}
	switch k {
	case screen.Enter, screen.Right:
		if name := m.list.current(); name != "" {
			m.detail = &detail{queue: name, figure: m.list.figures[name], tab: client.Ready}
			m.again = true
		}
	case screen.Escape:
		m.list.filter("")
		m.again = true
	case "/":
		m.typing = true
	case "s", "S", "o":
		m.sort(k)
	case "p", "r":
		if f := m.list.figures[m.list.current()]; f != nil {
			m.changeQueue(k, f)
		}
	}
}

func (m *topModel) sort(k screen.Key) {
	if !m.list.whole() {
		m.notef(screen.Yellow, "more than %s queues: by name; / shows fewer", show.Thousands(mostNames))
		return
	}
	switch k {
	case "s":
		m.list.sortBy(1)
	case "S":
		m.list.sortBy(-1)
	case "o":
		m.list.reversed = !m.list.reversed
		m.list.arrange()
	}
	m.again = true
}

// changeQueue asks whether to pause or resume a queue, or to requeue its dead letters.
func (m *topModel) changeQueue(k screen.Key, f *figures.Queue) {
	switch {
	case k == "p" && f.Paused:
		m.question(change{action: resumeQueue, queue: f.Queue}, "resume "+f.Queue+"?")
	case k == "p":
		m.question(change{action: pauseQueue, queue: f.Queue}, "pause "+f.Queue+"? Consumers get nothing until it is resumed.")
	case f.Dead == figures.None:
		m.notef(screen.Yellow, "%s is for dead letters: requeue them at their queue", f.Queue)
	case f.Dead == 0:
		m.notef(0, "%s has no dead letters", f.Queue)
	default:
		m.question(change{action: requeueAll, queue: f.Queue, most: f.Dead}, "requeue up to "+show.Many(f.Dead, "dead letter")+" to "+f.Queue+"?")
	}
}

// typeFilter takes a key of the filter.
func (m *topModel) typeFilter(k screen.Key) {
	begin := m.list.begin
	switch {
	case k == screen.Enter:
		m.typing = false
	case k == screen.Escape:
		m.typing, begin = false, ""
	case k == screen.CtrlU:
		begin = ""
	case k == screen.Backspace && begin != "":
		begin = begin[:len(begin)-1]
	case len(k) == 1 && strings.Contains(nameCharacters, string(k)) && len(begin) < maxFilter:
		begin += string(k)
	}
	if begin != m.list.begin {
		m.list.filter(begin)
		m.again = true
	}
}

// The names of queues have these characters, and are shorter than this.
const (
	nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	maxFilter      = 64
)

func (m *topModel) pressAtQueue(k screen.Key) {
	d := m.detail
	if lines := steps(k, d.height); lines != 0 {
		m.again = d.move(lines) || m.again
		return
	}
	switch k {
	case screen.Escape, screen.Backspace:
		m.detail, m.again = nil, true
	case screen.Tab, screen.Right, "l":
		d.turn(1)
		m.again = true
	case screen.BackTab, screen.Left, "h":
		d.turn(-1)
		m.again = true
	case screen.Enter:
		if i := d.current(); i != nil {
			m.item, m.again = &itemView{look: itemLook{d.in(), i.ID}}, true
		}
	case "p", "R":
		if d.figure != nil {
			m.changeQueue(k, d.figure)
		}
	case "r":
		m.requeueHere()
	}
}

// requeueHere asks whether to requeue the dead letter at the cursor, or all on the other
// tabs.
func (m *topModel) requeueHere() {
	d := m.detail
	switch i := d.current(); {
	case d.figure == nil:
	case d.tab != dead:
		m.changeQueue("R", d.figure)
	case i == nil:
		m.notef(0, "%s has no dead letters", d.queue)
	case i.Dead == nil:
		m.notef(screen.Yellow, "%s is no dead letter", i.ID)
	default:
		m.question(change{action: requeueOne, queue: i.Dead.Origin, id: i.ID}, "requeue "+i.ID+" to "+i.Dead.Origin+"?")
	}
}

func (m *topModel) pressAtItem(k screen.Key) {
	if lines := steps(k, m.itemHeight()); lines != 0 {
		m.item.top = max(0, m.item.top) + lines
		return
	}
	switch k {
	case screen.Escape, screen.Backspace, screen.Left:
		m.item, m.again = nil, true
	}
}

// action is what a change does.
type action int

const (
	pauseQueue action = iota
	resumeQueue
	requeueOne
	requeueAll
)

// change is what a user wants done to a queue.
type change struct {
	action action
	queue  string
	id     string // of a dead letter
	most   int64  // how many dead letters the user has seen
}

func (c change) String() string {
	return []string{"pause ", "resume ", "requeue to ", "requeue to "}[c.action] + c.queue
}

// run does it, and returns what was done. Between two dead letters it ends with ctx.
func (c change) run(ctx context.Context, s *session.Session, cl *client.Client, progress func(int64)) (string, error) {
	q := cl.Queue(c.queue)
	switch c.action {
	case pauseQueue:
		return "paused " + c.queue, q.Pause(s.Context)
	case resumeQueue:
		return "resumed " + c.queue, q.Resume(s.Context)
	}
	r := &deadletters.Requeue{Session: s, To: q}
	holders, err := deadletters.Letters(s, cl, c.queue)
	switch {
	case err != nil:
	case c.action == requeueOne:
		err = r.Find(holders, c.id)
	default:
		// What dies again meanwhile stays where it is.
		err = deadletters.Each(s, holders, c.queue, client.ListOptions{}, func(dead *client.Queue, i *client.Listed) (bool, error) {
			err := r.Item(dead, i.ID)
			if r.Done%100 == 0 {
				progress(r.Done)
			}
			return r.Done < c.most && ctx.Err() == nil, err
		})
	}
	return "requeued " + show.Many(r.Done, "item") + " to " + c.queue, err
}
