package process

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/subjects"
)

func NewLog(s settings.Settings, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel), ReplaceAttr: errorText}
	if s.Log == "json" {
		return slog.New(newLimitedLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(newLimitedLog(slog.NewTextHandler(w, options)))
}

// errorText logs an error as its text. By default slog would write all details of the error, which for an error of
// the embedded store is the stack of each place that it passed.
func errorText(_ []string, a slog.Attr) slog.Attr {
	if err, is := a.Value.Any().(error); is {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// How many lines with one message are logged in logEvery. Clients can cause some of them, and could fill a disk with
// them.
//
// What a line says of its sender, the sender has chosen. So each place has a bound for all its senders: a place is a
// tenant or a queue, and a client needs a right there. Many places share mostOfAll; each has a line at least, until
// there are mostOfAll of them.
const (
	mostOfSender = 10
	mostOfPlace  = 100
	mostOfAll    = 1000
	logEvery     = time.Minute
)

// maxMessages bounds the messages that are remembered.
const maxMessages = 1000

// limitedLog leaves out repeated lines, except for debugging. When their time is over, a line has the number of
// those left out of each sender or place. The limit holds for all packages together. A package may log its own
// problems less often, as kv/local does.
type limitedLog struct {
	slog.Handler
	origin  origin // of all lines, from With
	grouped bool
	repeats *repeats // shared by all loggers that come from one
}

// repeats counts lines by their message. Most messages are fixed texts, with everything
// variable in the attributes.
type repeats struct {
	to slog.Handler // gets the lines about lines that were left out

	mu       sync.Mutex
	messages map[string]*message
}

// message counts the lines with one message.
type message struct {
	text    string
	level   slog.Level
	ends    *time.Timer
	places  map[string]*tally
	senders map[string]*tally
}

// tally is how many lines were logged, and left out.
type tally struct {
	origin      origin
	times, left int
}

func newLimitedLog(to slog.Handler) *limitedLog {
	return &limitedLog{Handler: to, repeats: &repeats{to: to, messages: make(map[string]*message)}}
}

// Handle implements slog.Handler.
func (l *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		from := slices.Clone(l.origin)
		if !l.grouped {
			r.Attrs(func(a slog.Attr) bool {
				from.add(a)
				return true
			})
		}
		if !l.repeats.pass(&r, from) {
			return nil
		}
	}
	return l.Handler.Handle(ctx, r)
}

// pass counts a line, and reports whether it is to be logged.
func (p *repeats) pass(r *slog.Record, from origin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.messages[r.Message]
	if m == nil {
		if len(p.messages) == maxMessages {
			for _, old := range p.messages {
				p.end(old)
			}
		}
		m = &message{text: r.Message, level: r.Level, places: make(map[string]*tally), senders: make(map[string]*tally)}
		m.ends = time.AfterFunc(logEvery, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.end(m)
		})
		p.messages[r.Message] = m
	}
	return m.pass(from)
}

func (m *message) pass(from origin) bool {
	name := from.name()
	sender := m.senders[name]
	if sender != nil && sender.times >= mostOfSender {
		sender.left++
		return false
	}
	place := m.place(from.place())
	if place.times >= max(1, min(mostOfPlace, mostOfAll/len(m.places))) {
		place.left++
		return false
	}
	if sender == nil {
		sender = &tally{origin: from}
		m.senders[name] = sender
	}
	sender.times++
	place.times++
	return true
}

// place is the tally of a place. Those beyond mostOfAll share one.
func (m *message) place(of origin) *tally {
	name := of.name()
	if m.places[name] == nil && len(m.places) >= mostOfAll {
		of, name = nil, ""
	}
	if m.places[name] == nil {
		m.places[name] = &tally{origin: of}
	}
	return m.places[name]
}

// end forgets a message, and logs how many lines were left out. p.mu is held.
func (p *repeats) end(m *message) {
	if p.messages[m.text] != m {
		return // ended already
	}
	m.ends.Stop()
	delete(p.messages, m.text)
	ctx := context.Background()
	if !p.to.Enabled(ctx, m.level) {
		return
	}
	for _, of := range []map[string]*tally{m.senders, m.places} {
		for _, t := range of {
			if t.left == 0 {
				continue
			}
			r := slog.NewRecord(time.Now(), m.level, "left out lines of the log", 0)
			r.AddAttrs(slog.String("of", m.text))
			r.AddAttrs(t.origin...)
			r.AddAttrs(slog.Int("left_out", t.left))
			_ = p.to.Handle(ctx, r) // a log that cannot be written has nobody to tell
		}
	}
}

// WithAttrs implements slog.Handler.
func (l *limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	with.Handler, with.origin = l.Handler.WithAttrs(attrs), slices.Clone(l.origin)
	if !l.grouped {
		for _, a := range attrs {
			with.origin.add(a)
		}
	}
	return &with
}

// WithGroup implements slog.Handler.
func (l *limitedLog) WithGroup(name string) slog.Handler {
	with := *l
	with.Handler, with.grouped = l.Handler.WithGroup(name), true
	return &with
}

// origin has the attributes of a line that say whom it is about.
type origin []slog.Attr

// Attributes that name a place, the widest first, and those that name a sender or a part of the place.
var (
	ofPlaces  = []string{"tenant", "queue", "user", "host"}
	ofSenders = append([]string{"source", "link", "reply_prefix", "account", "address"}, ofPlaces...)
)

func (o *origin) add(a slog.Attr) {
	if slices.Contains(ofSenders, a.Key) {
		*o = append(*o, slog.String(a.Key, a.Value.String()))
	}
}

// name tells one origin from another.
func (o origin) name() string {
	name := ""
	for _, a := range o {
		name += a.Key + "=" + a.Value.String() + "\x00"
	}
	return name
}

// place is the widest place of the origin: the tenant of a queue before the queue. It is nil for a line about nobody.
func (o origin) place() origin {
	for _, key := range ofPlaces {
		for _, a := range o {
			if key == "tenant" && a.Key == "queue" && subjects.Tenant(a.Value.String()) != "" {
				a = slog.String("tenant", subjects.Tenant(a.Value.String()))
			}
			if a.Key == key {
				return origin{a}
			}
		}
	}
	return nil
}
