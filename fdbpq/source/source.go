package source

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Source is a source as it stands.
type Source struct {
	Queue, Name string
	Born        int64 // of the queue that it feeds: a later queue of the same name has another one
	Config      Config
	Position    Position
	Run         Run
	State       State
}

// State is what a source does.
type State string

const (
	StateRunning  State = "running"
	StateStarting State = "starting" // nobody has spoken with the stream yet
	StatePaused   State = "paused"
	StateBlocked  State = "blocked"   // the queue or the store is full
	StateFailing  State = "failing"   // the stream cannot be read
	StateNoRunner State = "no_runner" // nobody runs it
	StateStopped  State = "stopped"   // a person has to look
)

// Resume says with which message a source goes on. At most one field is set.
type Resume struct {
	FromSeq  uint64
	FromTime *time.Time
	Skip     bool // pass over the poisoned message
	Accept   bool // take the stream as it is
}

// Lag is how many sequences of the stream are behind the position, as the runner has seen it; of a link,
// how many items are ready at the other side.
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
	case StateStopped:
		return s.Position.Stop.Since
	case StateBlocked:
		return s.Position.Blocked
	case StateFailing:
		return s.Run.Since
	}
	return 0
}

// StartsAt is how Seq is found at the first contact with the stream.
func (s *Source) StartsAt() Start {
	switch at, err := time.Parse(time.RFC3339Nano, s.Position.From); {
	case s.Position.From == fromSeq:
		return Start{Seq: s.Position.Seq + 1}
	case s.Position.From == StartFirst:
		return Start{Word: StartFirst}
	case err == nil:
		return Start{Time: &at}
	}
	return s.Config.Start
}

func (s *Source) state(now int64) State {
	switch {
	case s.Position.Stop.Reason != "":
		return StateStopped
	case s.Config.Paused:
		return StatePaused
	case s.Run.Until <= now:
		return StateNoRunner
	case s.Run.Problem != "":
		return StateFailing
	case s.Position.Blocked != 0:
		return StateBlocked
	case s.Position.Created == 0:
		return StateStarting
	}
	return StateRunning
}

func (s *Source) home() home { return newHome(s.Queue, s.Born) }

// checkQueue returns ErrNone unless the queue that the source feeds is the one that had it.
func (s *Source) checkQueue(tx kv.Tx, q fdbpq.Queue) error {
	born, err := q.Born(tx)
	if errors.Is(err, fdbpq.ErrNoQueue) || err == nil && born != s.Born {
		return ErrNone
	}
	return err
}

// unmoved returns an error unless the source is where it was found, and has not stopped. The transaction
// depends on that.
func (s *Source) unmoved(tx kv.Tx, q fdbpq.Queue) error {
	if err := s.checkQueue(tx, q); err != nil {
		return err
	}
	value, err := tx.Get(s.home().Key(layout.SpacePosition, s.Name))
	if err != nil {
		return err
	}
	if value == nil {
		return ErrNone
	}
	var at Position
	if err := at.parse(value); err != nil {
		return fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if at != s.Position || at.Stop.Reason != "" {
		return ErrMoved
	}
	return nil
}

// runner is who runs the source, by the store.
func (s *Source) runner(tx kv.Tx) (run Run, err error) {
	row, err := tx.Get(s.home().Key(layout.SpaceSourceRunner, s.Name))
	if err != nil || row == nil {
		return run, err
	}
	if err := run.parse(row); err != nil {
		return run, fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	return run, nil
}

func (s *Source) resume(from Resume) error {
	p := &s.Position
	stop := p.Stop
	takes := s.Config.Mode == ModeTake
	switch {
	case s.Config.OfLink() && (from.FromSeq > 0 || from.FromTime != nil):
		return &Error{"it is of a link: what was taken is not in the other queue; expected skip, accept or nothing"}
	case takes && (from.FromSeq > 0 || from.FromTime != nil):
		return &Error{"the mode is take: what was acknowledged is not in the stream; expected skip, accept or nothing"}
	case from.FromSeq > 0:
		p.to(from.FromSeq - 1)
		p.From = ""
		if p.Created == 0 {
			p.From = fromSeq
		}
	case from.FromTime != nil:
		p.to(0)
		p.Created, p.From = 0, from.FromTime.UTC().Format(time.RFC3339Nano)
	case from.Skip && stop.Reason != StopPoisoned:
		return &Error{"there is no poisoned message to skip"}
	case from.Skip:
		p.skip()
	case from.Accept:
		p.accept(s.Config.Mode)
	case stop.Reason != "":
		return &Error{"it has stopped, " + string(stop.Reason) + ": expected from_seq, from_time, skip or accept"}
	}
	s.Config.Paused, p.Stop, p.Blocked = false, Stop{}, 0
	return nil
}

// home is where the rows of a queue's sources are.
type home struct{ named.Home }

func newHome(queue string, born int64) home {
	return home{named.Home{Queue: queue, Born: born, Kind: "source"}}
}

// read returns a source, nil if there is none.
func (h home) read(r kv.Reader, name string) (*Source, error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceSource, name), h.Key(layout.SpacePosition, name), h.Key(layout.SpaceSourceRunner, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	s := &Source{Queue: h.Queue, Name: name, Born: h.Born}
	if s.Config, err = parseConfig(rows[0]); err == nil {
		err = s.Position.parse(rows[1])
	}
	if err == nil && rows[2] != nil {
		err = s.Run.parse(rows[2])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged source %q: %w", name, err)
	}
	return s, nil
}

func parseConfig(b []byte) (c Config, err error) {
	_, err = noun.Parse(b, rowVersion, &c)
	return c, err
}

// homeOf is where the sources of a queue are. ErrNoQueue: there is no such queue.
func homeOf(r kv.Reader, q fdbpq.Queue) (home, error) {
	born, err := q.Born(r)
	return newHome(q.Name(), born), err
}

// Term is how long a claim lasts after its bridge has renewed it.
const Term = 5 * time.Second

// TermAlone is the Term of a process that has the store for itself: nobody waits for its end, so it need not write.
const TermAlone = time.Hour

// Run is who runs a source, and what he says of it.
type Run struct {
	Runner  string // "": no process runs it, which is no problem until Until
	Until   int64  // store time
	Last    uint64 // sequence of the stream, as he has seen it
	Problem string // why he cannot read the stream
	Since   int64  // wall clock of the problem
}

// vacate notes that no process runs the source. It counts as missing a runner when a term has passed.
func (run *Run) vacate(now int64) { run.Runner, run.Until = "", now+int64(Term) }

// Holds reports whether a bridge runs the source.
func (run *Run) Holds(now int64) bool { return run.Runner != "" && run.Until > now }

func (run *Run) pack() []byte {
	b := tuple.AppendInt(nil, rowVersion)
	for _, n := range []int64{run.Until, int64(run.Last), run.Since} {
		b = tuple.AppendInt(b, n)
	}
	return tuple.AppendString(tuple.AppendString(b, run.Runner), run.Problem)
}

func (run *Run) parse(b []byte) error {
	r := tuple.Read(b)
	var version, last int64
	r.Ints(&version, &run.Until, &last, &run.Since)
	run.Last, run.Runner, run.Problem = uint64(last), r.Text(), r.Text()
	return cmp.Or(r.Err(), noun.CheckVersion(version, rowVersion))
}

// Error says what is wrong with a source.
type Error struct{ Text string }

func (e *Error) Error() string { return "source: " + e.Text }

const (
	rowVersion = 1

	// noun is how errors call a source.
	noun = named.Noun("source")
)

// wrong has an error about the fields of an object say that they are of a source.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err.Error()}
}

// CheckName returns an error when a source may not have the name.
func CheckName(name string) error {
	return wrong(named.CheckName(name))
}

// ErrNone: the queue has no source of this name.
var ErrNone = errors.New("no such source")

// ErrMoved: the source is elsewhere than the caller has found it. Nothing was done.
var ErrMoved = errors.New("the source has moved")

// ErrTooMany: there are as many sources as there may be.
var ErrTooMany = errors.New("too many sources")
