package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// SourceMark is what a source knows of a message: enough to notice that the stream has another one
// in its place.
type SourceMark struct {
	Seq     uint64
	Time    int64  // at which the stream got it
	Subject uint64 // a hash of its subject
	Content uint32 // CRC-32C of its headers and payload

	// Where the source takes from a link, Seq is the number of the last batch, and these say the rest:
	Batch string // the id of that
	Part  int64  // items of the batch behind it that it is done with
	Next  string // the id of that one, if Part is not 0
}

// what names a message of a source, or the last item of a link.
func (m *SourceMark) what() string {
	if m.Next != "" {
		return fmt.Sprintf("item %d of batch %d", m.Part, m.Seq+1)
	}
	return fmt.Sprintf("message %d", m.Seq)
}

// SourcePosition is how far a source is. A caller gives it back as it was: that is how a transaction learns that
// nobody else has moved the source.
type SourcePosition struct {
	SourceMark      // of the last message that it is done with
	Exact      bool // the mark is of a message that was seen; otherwise Seq alone counts

	Created  int64  // when the stream was made, by its word; 0: nobody has spoken with it since it was made, or accepted
	Consumer int64  // the same of the consumer of a source that takes
	From     string // how Seq is found at the first contact: "": as the definition says, fromSeq, or a time. Of a link: fromGiver
	Giver    string // of a link: the store id of the other side
	Left     string // of the last batch of a link: numbers of items, from 1, that this store could not take

	Delivered, Skipped, Poisoned int64

	Stop    SourceStop
	Blocked int64 // wall clock since which the queue takes no items; 0: it does

	Revision int64 // grows with each change by an administrator
}

const (
	// fromSeq as a From: Seq is what an administrator has said.
	fromSeq = "seq"

	// fromGiver as a From: the link goes on with what the other side says, whatever was taken before.
	fromGiver = "giver"
)

// Accepts reports whether a link goes on with the number of the other side.
func (p *SourcePosition) Accepts() bool { return p.From == fromGiver }

// StartsAt is how Seq is found at the first contact with the stream.
func (s *Source) StartsAt() SourceStart {
	switch at, err := time.Parse(time.RFC3339Nano, s.Position.From); {
	case s.Position.From == fromSeq:
		return SourceStart{Seq: s.Position.Seq + 1}
	case s.Position.From == StartFirst:
		return SourceStart{Word: StartFirst}
	case err == nil:
		return SourceStart{Time: &at}
	}
	return s.Config.Start
}

// SourceStop is why a source waits for a person.
type SourceStop struct {
	Reason StopReason // "": it does not
	Text   string
	Since  int64      // wall clock
	At     SourceMark // the poisoned message; or the last one of the stream, by its Seq
}

// StopReason is a kind of stop.
type StopReason string

const (
	StopReplaced StopReason = "stream_replaced"
	StopBehind   StopReason = "stream_behind"
	StopDiverged StopReason = "stream_diverged"
	StopConsumer StopReason = "consumer_changed"
	StopPoisoned StopReason = "poisoned"

	StopGiverBehind   StopReason = "giver_behind"
	StopTakerBehind   StopReason = "taker_behind"
	StopGiverReplaced StopReason = "giver_replaced"
)

// to sets the position to a sequence of which no message is known.
func (p *SourcePosition) to(seq uint64) {
	p.SourceMark, p.Exact = SourceMark{Seq: seq}, false
}

// reach moves the position to a message.
func (p *SourcePosition) reach(m SourceMark) {
	if m.Next != "" && m.Next != p.Next { // of another batch: the giver has heard what was left of the one before
		p.Left = ""
	}
	p.SourceMark, p.Exact = m, true
}

// skip passes over the poisoned message. The item of a link is left to the giver.
func (p *SourcePosition) skip() {
	p.reach(p.Stop.At)
	if p.Poisoned++; p.Next != "" {
		p.Left = strings.TrimSpace(fmt.Sprint(p.Left, " ", p.Part))
	}
}

// LeavesOf returns what the giver of a link has to keep of the batch that the source has taken: numbers of items, from 1.
func (p *SourcePosition) LeavesOf() (numbers []int64) {
	if p.Next != "" { // it is still being taken
		return nil
	}
	for _, word := range strings.Fields(p.Left) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// accept takes the stream as it is: what it has that was not pushed is fed. Of a stream that lost its end and grew again our sequences say nothing any
// more. A source that copies goes on with what is younger than the last message that it read, and at the latest behind the end that the stream had then.
// One that takes begins with the first message, as it acknowledges what is behind its position.
func (p *SourcePosition) accept(mode SourceMode) {
	switch p.Stop.Reason {
	case StopReplaced:
		p.again(0, StartFirst)
	case StopBehind, StopDiverged:
		switch end := min(p.Seq, p.Stop.At.Seq); {
		case mode == SourceTakes:
			p.again(0, StartFirst)
		case p.Time != 0:
			p.again(end, time.Unix(0, p.Time+1).UTC().Format(time.RFC3339Nano))
		default:
			p.to(end)
		}
	case StopConsumer:
		p.Created, p.Consumer, p.From = 0, 0, StartFirst
	case StopGiverBehind, StopTakerBehind, StopGiverReplaced:
		p.Giver, p.From, p.Left = "", fromGiver, ""
	}
}

// again has the source find its position as at the first contact, from a start, and not behind seq unless that is 0.
func (p *SourcePosition) again(seq uint64, from string) {
	p.to(seq)
	p.Created, p.Consumer, p.From = 0, 0, from
}

func (p *SourcePosition) numbers() []*int64 {
	return []*int64{&p.Time, &p.Created, &p.Consumer, &p.Delivered, &p.Skipped, &p.Poisoned, &p.Stop.Since, &p.Stop.At.Time, &p.Blocked, &p.Revision}
}

func (p *SourcePosition) pack() []byte {
	exact := int64(0)
	if p.Exact {
		exact = 1
	}
	b := tuple.AppendInt(tuple.AppendInt(nil, sourceVersion), exact)
	for _, n := range []uint64{p.Seq, p.Subject, uint64(p.Content), p.Stop.At.Seq, p.Stop.At.Subject, uint64(p.Stop.At.Content)} {
		b = tuple.AppendInt(b, int64(n))
	}
	for _, n := range p.numbers() {
		b = tuple.AppendInt(b, *n)
	}
	for _, text := range []string{p.From, string(p.Stop.Reason), p.Stop.Text} {
		b = tuple.AppendString(b, text)
	}
	at := &p.Stop.At
	if p.Giver+p.Batch+p.Next+at.Batch+at.Next+p.Left == "" {
		return b
	}
	for _, text := range []string{p.Giver, p.Batch, p.Next, at.Batch, at.Next} {
		b = tuple.AppendString(b, text)
	}
	b = tuple.AppendInt(tuple.AppendInt(b, p.Part), at.Part)
	if p.Left == "" {
		return b
	}
	return tuple.AppendString(b, p.Left)
}

func (p *SourcePosition) parse(b []byte) error {
	r := tuple.Read(b)
	var version, exact int64
	var n [6]int64
	r.Ints(&version, &exact, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5])
	if err := cmp.Or(r.Err(), sourceVersionIs(version)); err != nil {
		return err
	}
	p.Exact, p.Seq, p.Subject, p.Content = exact == 1, uint64(n[0]), uint64(n[1]), uint32(n[2])
	p.Stop.At.Seq, p.Stop.At.Subject, p.Stop.At.Content = uint64(n[3]), uint64(n[4]), uint32(n[5])
	r.Ints(p.numbers()...)
	p.From, p.Stop.Reason, p.Stop.Text = r.Text(), StopReason(r.Text()), r.Text()
	if r.More() {
		p.Giver, p.Batch, p.Next, p.Stop.At.Batch, p.Stop.At.Next = r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
		r.Ints(&p.Part, &p.Stop.At.Part)
	}
	if r.More() {
		p.Left = r.Text()
	}
	return r.Err()
}

// SourceMessage is a message of the stream.
type SourceMessage struct {
	SourceMark
	Item    NewItem
	Missed  int64 // messages between the one before and this one, which the stream has dropped
	None    bool  // it is no item
	Refused error // why it can be no item: it becomes a dead letter
	Large   error // why it can be no dead letter either
}

// Fed is the result of a Feed.
type Fed struct {
	Position SourcePosition
	Done     int // messages that the source is done with
	Pushed   int
	Known    int   // of messages that another item stands for, by its unique value
	Poisoned int   // became dead letters
	Skipped  int64 // messages that the stream had dropped
	Blocked  error // why the message behind them was not pushed: the queue or the store is full
	Events   []Event
}

// Feed pushes messages of a source, in their order, if it is still at the position that its caller has found, and
// moves it on. ErrSourceMoved: it is elsewhere. ErrNoSource: it is gone.
//
// A message that no push would take becomes a dead letter. Where none can be made of it, the source stops there. When the queue is
// full, what fits is pushed.
func (q Queue) Feed(tx kv.Tx, s *Source, messages []SourceMessage) (fed Fed, err error) {
	tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.QueueRow(layout.SpaceHigh, q.name), s.home().key(layout.SpacePosition, s.Name))
	qtx, err := s.open(tx, q)
	if err != nil {
		return fed, err
	}
	p, err := qtx.pusher(q.name)
	if err != nil {
		return fed, err
	}
	p.full = q.full
	if err := p.readCounts(nil); err != nil {
		return fed, err
	}
	fed.Position = s.Position
	for i := range messages {
		m := &messages[i]
		goesOn, err := p.feed(&fed, m)
		if err != nil {
			return fed, err
		}
		fed.Events = append(fed.Events, p.happened()...)
		if !goesOn {
			if fed.Position.Stop.Reason != "" && m.Missed > 0 { // whoever passes over the message passes over these, too
				fed.Position.to(m.Seq - 1)
				fed.skipped(m.Missed)
			}
			break
		}
		fed.Position.reach(m.SourceMark)
		fed.skipped(m.Missed)
		fed.Done++
	}
	at := &fed.Position
	switch wall := p.store.inside.Clock.Wall().UnixNano(); {
	case fed.Blocked != nil && at.Blocked == 0:
		at.Blocked = wall
	case fed.Blocked == nil:
		at.Blocked = 0
	}
	tx.Set(s.home().key(layout.SpacePosition, s.Name), at.pack())
	return fed, p.done()
}

func (f *Fed) skipped(n int64) {
	f.Skipped += n
	f.Position.Skipped += n
}

// feed pushes one message, and reports whether the source is done with it.
func (p *pusher) feed(fed *Fed, m *SourceMessage) (goesOn bool, err error) {
	if m.None {
		return true, nil
	}
	refused, large := m.Refused, m.Large
	if refused == nil && large == nil {
		pushed, err := p.push(&m.Item)
		if err != nil {
			return false, err
		}
		switch {
		case pushed.Err == nil:
			fed.Position.Delivered++
			if pushed.Duplicate {
				fed.Known++
				return true, nil
			}
			fed.Pushed++
			p.evict(nil)
			return true, nil
		case errors.Is(pushed.Err, ErrFull), p.full != nil && pushed.Err == p.full:
			fed.Blocked = pushed.Err
			return false, nil
		case errors.Is(pushed.Err, ErrContent):
			large = pushed.Err
		default:
			refused = pushed.Err
		}
	}
	if large == nil && p.full != nil {
		fed.Blocked = p.full
		return false, nil
	}
	if large == nil {
		buried, err := deadLetters{p.queueTx}.buryMessage(m, refused)
		if err != nil {
			return false, err
		}
		if buried {
			fed.Poisoned++
			fed.Position.Poisoned++
			return true, nil
		}
		large = fmt.Errorf("%w; %w", refused, errNoDeadLetters(p.name))
	}
	fed.Position.Stop = SourceStop{Reason: StopPoisoned, Text: fmt.Sprintf("%s: %v", m.what(), large), Since: p.store.inside.Clock.Wall().UnixNano(), At: m.SourceMark}
	return false, nil
}

// buryMessage makes a dead letter of a message that is no item. It reports whether there is a queue for it.
func (d deadLetters) buryMessage(m *SourceMessage, reason error) (bool, error) {
	dlq, err := d.open()
	if err != nil || dlq == nil {
		return false, err
	}
	buried := layout.Item{Envelope: layout.Envelope{PushedAt: dlq.pushed}}
	priority := d.state.config.Priority
	if m.Item.HasPriority {
		priority = m.Item.Priority
	}
	seq := dlq.assign(&buried, priority)
	id := idOf(&buried)
	text := fmt.Sprint("source: ", reason)
	buried.Dead = layout.Death{Reason: text[:min(len(text), maxReason)], Origin: ownName(d.name), OriginID: id.String(), At: time.Unix(0, dlq.pushed)}
	return true, dlq.lay(&buried, seq, m.Item.Headers, m.Item.Payload)
}

// MoveSource changes how far a source is, unless it is elsewhere by now: at the first contact, over what the
// stream has lost, and to stop it.
func (q Queue) MoveSource(tx kv.Tx, s *Source, to SourcePosition) error {
	if _, err := s.open(tx, q); err != nil {
		return err
	}
	if to.Stop.Reason != "" && to.Stop.Since == 0 {
		to.Stop.Since = q.store.inside.Clock.Wall().UnixNano()
	}
	tx.Set(s.home().key(layout.SpacePosition, s.Name), to.pack())
	return nil
}

// SourceState is what a source does.
type SourceState string

const (
	SourceRuns     SourceState = "running"
	SourceStarts   SourceState = "starting" // nobody has spoken with the stream yet
	SourcePaused   SourceState = "paused"
	SourceBlocked  SourceState = "blocked"   // the queue or the store is full
	SourceFails    SourceState = "failing"   // the stream cannot be read
	SourceNoRunner SourceState = "no_runner" // nobody runs it
	SourceStopped  SourceState = "stopped"   // a person has to look
)

// Lag is how many sequences of the stream are behind the position, as the runner has seen it; of a link, how many items are ready at the other side.
func (s *Source) Lag() uint64 {
	if s.Config.OfLink() {
		return s.Run.Last
	}
	if s.Run.Last < s.Position.Seq {
		return 0
	}
	return s.Run.Last - s.Position.Seq
}

// Since is the wall clock since which the source stands; 0: it does not, or that is not known.
func (s *Source) Since() int64 {
	switch s.State {
	case SourceStopped:
		return s.Position.Stop.Since
	case SourceBlocked:
		return s.Position.Blocked
	case SourceFails:
		return s.Run.Since
	}
	return 0
}

func (s *Source) state(now int64) SourceState {
	switch {
	case s.Position.Stop.Reason != "":
		return SourceStopped
	case s.Config.Paused:
		return SourcePaused
	case s.Run.Until <= now:
		return SourceNoRunner
	case s.Run.Problem != "":
		return SourceFails
	case s.Position.Blocked != 0:
		return SourceBlocked
	case s.Position.Created == 0:
		return SourceStarts
	}
	return SourceRuns
}

// state sets what a source does now.
func (s sources) state(r kv.Reader, source *Source) error {
	now, err := s.inside.Clock.At(r)
	if err == nil {
		source.State = source.state(now)
	}
	return err
}

// SourceRun is who runs a source, and what he says of it.
type SourceRun struct {
	Runner  string // "": nobody, and until then none is missed
	Until   int64  // store time
	Last    uint64 // sequence of the stream, as he has seen it
	Problem string // why he cannot read the stream
	Since   int64  // wall clock of the problem
}

// SourceTerm is how long a bridge runs a source that it has not said so again.
const SourceTerm = 5 * time.Second

// SourceTermAlone is that of a bridge that has the store for itself: nobody waits for its end, so it need not write.
const SourceTermAlone = time.Hour

// SourceClaim is what a bridge says of a source that it runs.
type SourceClaim struct {
	Source *Source
	Run    SourceRun
}

// RunSources is [Queue.RunSource] for many, in one transaction. A source that is gone is not the bridge's.
func (s *Store) RunSources(tx kv.Tx, claims []SourceClaim, alone bool) (mine []bool, err error) {
	var rows [][]byte
	for _, c := range claims {
		h := c.Source.home()
		rows = append(rows, layout.QueueRow(layout.SpaceState, h.queue), h.key(layout.SpaceSource, c.Source.Name), h.key(layout.SpaceSourceRunner, c.Source.Name))
	}
	tx.Prefetch(rows...)
	mine = make([]bool, len(claims))
	for i, c := range claims {
		mine[i], err = s.Queue(c.Source.Queue).RunSource(tx, c.Source, c.Run, alone)
		if err != nil && err != ErrNoSource {
			return nil, err
		}
	}
	return mine, nil
}

// RunSource says that a bridge runs a source for a while. It reports whether it may: no other one does, or alone says that no other one
// can. Nothing depends on it but who fetches.
func (q Queue) RunSource(tx kv.Tx, s *Source, run SourceRun, alone bool) (bool, error) {
	qtx, err := s.openAny(tx, q)
	if err != nil {
		return false, err
	}
	now, err := qtx.now()
	if err != nil {
		return false, err
	}
	key := s.home().key(layout.SpaceSourceRunner, s.Name)
	was, err := tx.Get(key)
	if err != nil {
		return false, err
	}
	if was != nil {
		var other SourceRun
		if err := other.parse(was); err != nil {
			return false, fmt.Errorf("damaged source %q: %w", s.Name, err)
		}
		if other.Runner != run.Runner && other.Holds(now) && !alone {
			return false, nil
		}
	}
	run.Until = now + int64(SourceTerm)
	if alone {
		run.Until = now + int64(SourceTermAlone)
	}
	tx.Set(key, run.pack())
	return true, nil
}

// LeaveSource has another bridge run a source at once.
func (q Queue) LeaveSource(tx kv.Tx, s *Source, runner string) error {
	if _, err := s.openAny(tx, q); err != nil {
		return err
	}
	key := s.home().key(layout.SpaceSourceRunner, s.Name)
	was, err := tx.Get(key)
	if err != nil || was == nil {
		return err
	}
	var run SourceRun
	if err := run.parse(was); err != nil {
		return fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if run.Runner != runner {
		return nil
	}
	now, err := q.store.inside.Clock.At(tx.Snapshot())
	if err == nil {
		run.vacate(now)
		tx.Set(key, run.pack())
	}
	return err
}

// vacate has nobody run the source. For a term none is missed.
func (run *SourceRun) vacate(now int64) { run.Runner, run.Until = "", now+int64(SourceTerm) }

// Holds reports whether a bridge runs the source.
func (run *SourceRun) Holds(now int64) bool { return run.Runner != "" && run.Until > now }

func (run *SourceRun) pack() []byte {
	b := tuple.AppendInt(nil, sourceVersion)
	for _, n := range []int64{run.Until, int64(run.Last), run.Since} {
		b = tuple.AppendInt(b, n)
	}
	return tuple.AppendString(tuple.AppendString(b, run.Runner), run.Problem)
}

func (run *SourceRun) parse(b []byte) error {
	r := tuple.Read(b)
	var version, last int64
	r.Ints(&version, &run.Until, &last, &run.Since)
	run.Last, run.Runner, run.Problem = uint64(last), r.Text(), r.Text()
	return cmp.Or(r.Err(), sourceVersionIs(version))
}

func (s *Source) home() sourceHome { return sourceHome{s.Queue, s.Born} }

// openAny begins an operation on the queue that a source feeds, if there still is that source.
func (s *Source) openAny(tx kv.Tx, q Queue) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err != nil {
		return nil, err
	}
	if !qtx.there() || qtx.state.born != s.Born {
		return nil, ErrNoSource
	}
	definition, err := tx.Get(s.home().key(layout.SpaceSource, s.Name))
	if err == nil && definition == nil {
		err = ErrNoSource
	}
	return qtx, err
}

// open is openAny of a source that has to be where it was found, and to run.
func (s *Source) open(tx kv.Tx, q Queue) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err != nil {
		return nil, err
	}
	if !qtx.there() || qtx.state.born != s.Born {
		return nil, ErrNoSource
	}
	value, err := tx.Get(s.home().key(layout.SpacePosition, s.Name))
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, ErrNoSource
	}
	var at SourcePosition
	if err := at.parse(value); err != nil {
		return nil, fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if at != s.Position || at.Stop.Reason != "" {
		return nil, ErrSourceMoved
	}
	return qtx, nil
}

// BatchPart is what an answer has of the batch of a link: the items behind the first ones, of so many.
type BatchPart struct {
	ID           string
	First, Total int
}

// OfBatch is [SourcePosition.OfPart] for a whole batch.
func (p *SourcePosition) OfBatch(id string, at time.Time, items []SourceMessage) []SourceMessage {
	return p.OfPart(BatchPart{ID: id, Total: len(items)}, at, items)
}

// OfPart numbers items of the batch of a link that is behind the position, and ends the batch with a message that is no item. It leaves out
// those that the source is done with.
func (p *SourcePosition) OfPart(part BatchPart, at time.Time, items []SourceMessage) []SourceMessage {
	done := 0
	if p.Next == part.ID {
		done = max(0, min(int(p.Part)-part.First, len(items)))
	}
	for i := done; i < len(items); i++ {
		items[i].SourceMark = SourceMark{Seq: p.Seq, Time: at.UnixNano(), Batch: p.Batch, Part: int64(part.First + i + 1), Next: part.ID}
	}
	if part.First+len(items) < part.Total {
		return items[done:]
	}
	return append(items[done:], SourceMessage{SourceMark: SourceMark{Seq: p.Seq + 1, Time: at.UnixNano(), Batch: part.ID}, None: true})
}
