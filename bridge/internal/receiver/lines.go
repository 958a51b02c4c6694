package receiver

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// lines are the messages that wait to be handled. Each tenant has a line, in the order of arrival, and the lines
// take turns: a tenant that sends much delays no other. Messages without a tenant share a line; without tenants it
// is the only one.
//
// A tenant whose line is full floods the bridge. Its messages are refused unread until its line is empty, and then
// for a multiple of the time that this took: otherwise the bridge would do nothing but handle them. A tenant that
// floods in another way is refused for longer.
type lines struct {
	common   line
	by       map[string]*line // of tenants: all tenants with messages, all that flood, and some others
	ready    []*line          // with messages, in the order of their turns
	flooding []*line
}

type line struct {
	tenant   string
	messages []*nats.Msg // and marks
	bytes    int
	full     time.Time     // since when the tenant floods; zero: it does not
	least    time.Duration // how long the flood lasts after the line is empty, at least
	until    time.Time     // the end of the flood; zero: the line is not empty yet

	headers int       // lines of headers that came since
	since   time.Time // a second ago at most, or it counts for nothing
}

const (
	// A line has room for this many messages, and bytes: parts of the bounds beyond which the receiver sheds load
	// for all.
	lineMost  = shedAt / 8
	lineBytes = shedAtBytes / 4

	// turnMost is how many messages of a line come before the messages of the next line, roundMost how many are taken
	// before the lines are looked at again. The message that reaches the bound of bytes is the last one, too.
	turnMost   = 16
	roundMost  = 64
	turnBytes  = 64 << 10
	roundBytes = 256 << 10

	// headersMost is how many lines of headers a tenant may send in a second. nats.go reads them on the goroutine that receives for
	// all, which a few millions keep busy.
	headersMost = 250_000

	// linesKept is how many lines of tenants are kept while they are empty.
	linesKept = 1024

	// A tenant that has flooded rests for restTimes as long as its line took to become
	// empty, and no longer than restMost.
	restTimes = 3
	restMost  = time.Second
)

// add adds a message of a tenant ("": without one) to its line. room is false if the line is full and the message
// has to be refused; begins says that a flood begins with it.
func (l *lines) add(m *nats.Msg, tenant string, size int) (room, begins bool) {
	of := &l.common
	if tenant != "" {
		of = l.open(tenant)
		if len(of.messages) >= lineMost || len(of.messages) > 0 && of.bytes+size > lineBytes {
			begins = l.begin(of, 0)
		}
		if of.floods() {
			return false, begins
		}
	}
	of.bytes += size
	l.append(of, m)
	return true, false
}

// open returns the line of a tenant.
func (l *lines) open(tenant string) *line {
	l.forgive()
	of := l.by[tenant]
	if of == nil {
		if l.by == nil {
			l.by = make(map[string]*line)
		}
		of = &line{tenant: tenant}
		l.by[tenant] = of
	}
	return of
}

// flood marks a tenant as flooding, and reports whether it did not flood before.
func (l *lines) flood(tenant string) (begins bool) {
	of := l.open(tenant)
	begins = l.begin(of, restMost)
	if len(of.messages) == 0 && of.until.IsZero() {
		l.emptied(of)
	}
	return begins
}

// count counts lines of headers that nobody has read, and reports whether a flood begins with them.
func (l *lines) count(tenant string, headers int) (begins bool) {
	of, now := l.open(tenant), time.Now()
	if now.Sub(of.since) >= time.Second {
		of.since, of.headers = now, 0
	}
	if of.headers += headers; of.headers <= headersMost {
		l.forget(of)
		return false
	}
	of.headers = 0
	return l.flood(tenant)
}

// begin begins a flood, unless it is under way. The flood lasts at least this long after the line is empty.
func (l *lines) begin(of *line, least time.Duration) bool {
	if of.floods() {
		return false
	}
	of.full, of.least = time.Now(), least
	l.flooding = append(l.flooding, of)
	return true
}

func (of *line) floods() bool { return !of.full.IsZero() }

// append adds a message or a mark.
func (l *lines) append(of *line, m *nats.Msg) {
	if len(of.messages) == 0 {
		l.ready = append(l.ready, of)
	}
	of.messages = append(of.messages, m)
}

// refuses reports whether all messages of a tenant are refused now.
func (l *lines) refuses(tenant string) bool {
	l.forgive()
	of := l.by[tenant]
	return of != nil && of.floods()
}

// forgive ends the floods whose time is over.
func (l *lines) forgive() {
	if len(l.flooding) == 0 {
		return
	}
	now := time.Now()
	l.flooding = slices.DeleteFunc(l.flooding, func(of *line) bool {
		if of.until.IsZero() || now.Before(of.until) {
			return false
		}
		of.full, of.least, of.until = time.Time{}, 0, time.Time{}
		l.forget(of)
		return true
	})
}

// mark adds a mark behind all messages, and returns in how many lines it is.
func (l *lines) mark(m *nats.Msg) int {
	if len(l.ready) == 0 {
		l.append(&l.common, m)
		return 1
	}
	for _, of := range l.ready {
		l.append(of, m)
	}
	return len(l.ready)
}

// take takes messages from each line in turn. It uses memory that the caller does not need any more.
func (l *lines) take(used []*nats.Msg) (taken []*nats.Msg) {
	if l.by == nil { // there are no tenants
		taken, l.ready = l.common.messages, l.ready[:0]
		l.common = line{messages: used[:0]}
		return taken
	}
	taken = used[:0]
	for bytes := 0; len(taken) < roundMost && bytes < roundBytes && len(l.ready) > 0; {
		of := l.ready[0]
		had := of.bytes
		taken = of.take(taken)
		bytes += had - of.bytes
		last := len(l.ready) - 1
		copy(l.ready, l.ready[1:])
		if l.ready[last] = of; len(of.messages) == 0 {
			l.ready = l.ready[:last]
			l.emptied(of)
		}
	}
	l.forgive()
	return taken
}

// take moves the messages of one turn.
func (of *line) take(to []*nats.Msg) []*nats.Msg {
	n, bytes := 0, 0
	for n < len(of.messages) && n < turnMost && bytes < turnBytes {
		if m := of.messages[n]; m.Sub != nil { // a mark has none
			bytes += m.Size()
		}
		n++
	}
	turn := of.messages[:n]
	of.bytes -= bytes
	to = append(to, turn...)
	clear(turn)
	of.messages = of.messages[len(turn):]
	return to
}

// emptied ends a line for now.
func (l *lines) emptied(of *line) {
	of.messages = nil
	if of.floods() {
		now := time.Now()
		of.until = now.Add(max(of.least, min(restTimes*now.Sub(of.full), restMost)))
	} else {
		l.forget(of)
	}
}

// forget forgets an empty line if there are many.
func (l *lines) forget(of *line) {
	if len(of.messages) == 0 && len(l.by) > linesKept {
		delete(l.by, of.tenant)
	}
}

// Floods tells a connection which messages the receiver would refuse unread: the messages of tenants that flood it. The
// connection then need not read them. The zero value is ready for use, and nil knows of no flood.
type Floods struct {
	refuse atomic.Pointer[func(subject, reply string) bool]  // nil: no tenant floods
	lines  atomic.Pointer[func(subject string, headers int)] // nil: nobody counts
}

// Headers tells the receiver of a message with so many lines of headers, before anything reads them.
func (f *Floods) Headers(subject string, lines int) {
	if count := f.lines.Load(); count != nil {
		(*count)(subject, lines)
	}
}

// count sets the function that counts lines of headers; nil ends that.
func (f *Floods) count(lines *func(subject string, headers int)) {
	if f != nil {
		f.lines.Store(lines)
	}
}

// Any reports whether any tenant floods the receiver.
func (f *Floods) Any() bool { return f != nil && f.refuse.Load() != nil }

// Refuse refuses a message if its tenant floods, and reports whether it did.
func (f *Floods) Refuse(subject, reply string) bool {
	if f == nil {
		return false
	}
	refuse := f.refuse.Load()
	return refuse != nil && (*refuse)(subject, reply)
}

// tell sets the function that refuses messages; nil ends that.
func (f *Floods) tell(refuse *func(subject, reply string) bool) {
	if f != nil {
		f.refuse.Store(refuse)
	}
}
