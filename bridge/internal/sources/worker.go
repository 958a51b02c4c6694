package sources

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// worker runs one source.
type worker struct {
	runners  *Runners
	id       id
	remote   Remote
	identity string // of the remote
	revision int64  // of the source
	cancel   context.CancelFunc
	done     chan struct{}
	spoke    time.Time            // when the bridge last wrote that it runs the source; used by the goroutine that looks
	told     map[string]time.Time // when events were last published, by their types
	untold   int64                // dropped messages of the stream that no event has reported yet

	mu      sync.Mutex
	last    uint64 // of the stream; of a link, how many items are ready at the other side
	problem string
	since   int64

	doubt doubt
}

func (w *worker) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	go func() {
		defer w.runners.Kick() // a restart may wait for the end of this worker
		defer close(w.done)
		defer cancel()
		w.run(ctx)
	}()
}

func (w *worker) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// report is the part of the source's row that the worker writes: the last sequence of the stream, and why it cannot
// be read, since when.
func (w *worker) report() (last uint64, problem string, since int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.problem, w.since
}

// saw notes that the stream has a message.
func (w *worker) saw(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = max(w.last, seq)
}

// ends notes the end of the stream. It may lie before a message that was seen, if the stream is another one by now.
func (w *worker) ends(last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = last
}

// failing notes why the stream cannot be read, "" if it can.
func (w *worker) failing(text string) {
	text = source.Text(text)
	w.mu.Lock()
	changed := (text == "") != (w.problem == "")
	if changed {
		w.since = time.Now().UnixNano()
	}
	w.problem = text
	w.mu.Unlock()
	switch {
	case !changed:
	case text == "":
		w.runners.Log.Info("a source goes on", "queue", w.id.queue, "source", w.id.name)
	default:
		w.runners.Log.Warn("a source fails, and is tried again", "queue", w.id.queue, "source", w.id.name, "error", text)
	}
}

// Pauses between attempts.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second

	// verifyEvery is how often a running source checks that the stream is still the same.
	verifyEvery = time.Minute

	// consumerStays is how long the server keeps the consumer of a source that copies, when nobody fetches.
	consumerStays = 5 * time.Minute

	// ackWait is how long the server waits for an acknowledgement: longer than a fetched message may wait.
	ackWait = 30 * time.Minute
)

// errDone: the source does not run until its definition changes.
var errDone = errors.New("the source does not run")

// run reads the stream until ctx ends, or the source stops running.
func (w *worker) run(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := w.attempt(ctx)
		switch {
		case ctx.Err() != nil || err == errDone:
			return
		case errors.Is(err, source.ErrMoved):
			continue // moved by an administrator, or another bridge
		case time.Since(began) > lastPause:
			pause = firstPause
		}
		var doubtful *doubtError
		if errors.As(err, &doubtful) {
			pause = min(w.runners.Hold/6, 5*time.Second)
		}
		w.runners.Log.Debug("reading the stream of a source failed", "queue", w.id.queue, "source", w.id.name, "error", err)
		w.failing(err.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause + rand.N(pause/4+1)):
		}
	}
}

// load returns the source as it is in the store.
func (w *worker) load(ctx context.Context) (s source.Source, err error) {
	ctx, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	err = w.runners.Store.View(ctx, func(r kv.Reader) (err error) {
		s, err = w.runners.Sources.Get(r, w.runners.Store.Queue(w.id.queue), w.id.name)
		return err
	})
	if err == source.ErrNone || err == fdbpq.ErrNoQueue || err == nil && (s.Born != w.id.born || s.Config.Paused || s.Position.Stop.Reason != "") {
		err = errDone
	}
	return s, err
}

// attempt reads the stream from the source's position, until something fails.
func (w *worker) attempt(ctx context.Context) error {
	found, err := w.load(ctx)
	if err != nil {
		return err
	}
	items, f := w.runners.Wire.Sourced(w.id.queue, w.id.name, found.Config.Map)
	if f != nil {
		return f
	}
	nc, err := w.runners.connections.to(ctx, found.Config.Remote, w.remote)
	if err != nil {
		return err
	}
	lost := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(lost)
	if !nc.IsConnected() {
		return errDisconnected
	}
	a := &attempt{worker: w, source: found, items: items, lost: lost}
	if found.Config.OfLink() {
		return a.fromLink(ctx, nc)
	}
	a.stream = newStream(nc, w.remote.Domain, found.Config.Stream)
	if err := a.verify(ctx); err != nil {
		return err
	}
	consumer, err := a.consumer(ctx)
	if err != nil {
		return err
	}
	a.filtered = true
	// The consumer that was just made may belong to another stream than the one that was looked at before.
	if err := a.verify(ctx); err != nil {
		return err
	}
	a.starts()
	if !a.takes() {
		defer a.stream.remove(consumer)
	}
	w.failing("")
	return a.read(ctx, consumer)
}

// attempt is one attempt to read a source, with its state.
type attempt struct {
	*worker
	source source.Source
	items  *codec.Sourced
	stream *stream
	info   jetstream.StreamInfo // of the stream, at the last look
	looked time.Time            // time of that look
	began  uint64               // the end of the stream when the attempt began to read; 0 before that
	holes  uint64               // of a source that takes: how many sequences up to there may have had no message then, and were not passed yet
	lost   chan nats.Status

	filtered bool // the consumer has the filter of the source; before that, missing messages may have been read with another filter
}

func (a *attempt) takes() bool { return a.source.Config.Mode == source.ModeTake }

// move changes the source's position, in the store and here.
func (a *attempt) move(ctx context.Context, to source.Position) error {
	ctx, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	err := a.runners.update(ctx, func(tx kv.Tx) error {
		return a.runners.Sources.Move(tx, &a.source, to)
	})
	if err != nil {
		return a.failed(err)
	}
	a.source.Position = to
	return nil
}

// failed notes that a transaction has failed.
func (a *attempt) failed(err error) error {
	if err == source.ErrNone {
		return errDone
	}
	a.runners.Failed(err)
	return err
}

// verify compares the stream with the source's marks of it.
func (a *attempt) verify(ctx context.Context) error {
	info, err := a.stream.info(ctx)
	if err != nil {
		return err
	}
	a.info, a.looked = info, time.Now()
	a.ends(info.State.LastSeq)
	limits := info.Config.Retention == jetstream.LimitsPolicy
	switch {
	case limits && a.takes():
		return fmt.Errorf("the stream %s has limits, and keeps what is acknowledged: expected the mode copy", info.Config.Name)
	case !limits && !a.takes():
		return fmt.Errorf("the stream %s has the retention %s, and a reader that acknowledges nothing may miss messages: expected the mode take", info.Config.Name, info.Config.Retention)
	}
	at := a.source.Position
	if at.Created == 0 {
		return a.begin(ctx, &info)
	}
	stop, err := a.compare(ctx, &info)
	if err != nil {
		return err
	}
	if stop.Reason != "" {
		return a.suspect(ctx, stop)
	}
	if a.doubt.Reason != source.StopConsumer { // which durable checks
		a.doubt = doubt{}
	}
	if info.State.FirstSeq > at.Seq+1 && (!a.takes() || a.filtered && len(a.source.Config.Filter) == 0) {
		skipped := a.dropped(at.Seq, info.State.FirstSeq)
		to := at
		to.Seq, to.Exact, to.Subject, to.Content, to.Skipped = info.State.FirstSeq-1, false, 0, 0, at.Skipped+skipped
		if err := a.move(ctx, to); err != nil {
			return err
		}
		a.skipped(skipped)
	}
	a.skipped(0)
	return nil
}

// goesBack notes that the position of a source that takes moves before messages that it has read. They leave the stream
// some time after their acknowledgements, so of what the stream has now nobody knows why it does not come.
func (a *attempt) goesBack(info *jetstream.StreamInfo) {
	a.began, a.holes = info.State.LastSeq, info.State.LastSeq
}

// starts notes how the stream is when the attempt begins to read. The stream says how many messages are missing behind
// its first one, and not which.
func (a *attempt) starts() {
	if a.holes > 0 { // it went back
		return
	}
	state := &a.info.State
	a.began = state.LastSeq
	if length := state.LastSeq + 1 - state.FirstSeq; a.takes() && length > state.Msgs {
		a.holes = length - state.Msgs
	}
}

// dropped returns how many of the sequences between two, which have no message any more, had one since the attempt
// began to read. Nobody knows which of the older ones had none before, so the first ones count as these: when all have
// passed the number is right. It is too low if holes lay before the position.
func (a *attempt) dropped(last, seq uint64) int64 {
	old := max(last, min(seq-1, a.began)) - last
	known := min(old, a.holes)
	a.holes -= known
	return int64(seq - 1 - last - known)
}

// begin finds the position at which the source begins: at its first contact with the stream, and when a person has
// accepted the stream as it is.
func (a *attempt) begin(ctx context.Context, info *jetstream.StreamInfo) error {
	to := a.source.Position
	to.Created, to.From, to.Exact = info.Created.UnixNano(), "", false
	start, first, skipped := a.source.StartsAt(), max(info.State.FirstSeq, 1)-1, int64(0)
	switch {
	case start.Seq > 0:
		to.Seq = start.Seq - 1
	case start.Time != nil:
		seq, err := a.before(ctx, *start.Time)
		if err != nil {
			return err
		}
		if to.Seq == 0 || seq < to.Seq {
			to.Seq = seq
		}
	case start.Word == source.StartNew:
		to.Seq = info.State.LastSeq
	case to.Seq > 0 && info.Config.Retention == jetstream.InterestPolicy:
		// The consumer was made again. The messages that are here were kept for other consumers, and those that
		// were read lie behind the position.
		to.Exact = a.source.Position.Exact
	default:
		if to.Seq > 0 && first > to.Seq && len(a.source.Config.Filter) == 0 {
			skipped = int64(first - to.Seq)
		}
		to.Seq, to.Skipped = first, to.Skipped+skipped
	}
	if again, err := a.stream.info(ctx); err != nil || again.Created != info.Created {
		return errors.Join(err, errors.New("the stream changes"))
	}
	err := a.move(ctx, to)
	if err == nil {
		a.skipped(skipped)
	}
	return err
}

// before returns the sequence before the first message of a time.
func (a *attempt) before(ctx context.Context, at time.Time) (uint64, error) {
	config := a.ephemeral()
	config.DeliverPolicy, config.OptStartSeq, config.OptStartTime, config.FilterSubjects = jetstream.DeliverByStartTimePolicy, 0, &at, nil
	made, err := a.stream.create(ctx, config, "create")
	if err != nil {
		return 0, err
	}
	a.stream.remove(config.Name)
	return made.Delivered.Stream, nil
}

// compare says why the stream is not the one that the source has read, if it is not.
func (a *attempt) compare(ctx context.Context, info *jetstream.StreamInfo) (stop source.Stop, err error) {
	at := &a.source.Position
	stop.At.Seq = info.State.LastSeq
	switch {
	case info.Created.UnixNano() != at.Created:
		stop.Reason = source.StopReplaced
		stop.Text = fmt.Sprintf("the stream was made at %s, the one that was read at %s", info.Created.UTC().Format(time.RFC3339Nano), time.Unix(0, at.Created).UTC().Format(time.RFC3339Nano))
		return stop, nil
	case info.State.LastSeq < at.Seq:
		stop.Reason = source.StopBehind
		stop.Text = fmt.Sprintf("the stream ends at %d, the source has read %d", info.State.LastSeq, at.Seq)
		return stop, nil
	case !at.Exact:
		return stop, nil
	}
	mark, there, err := a.stream.mark(ctx, at.Seq)
	switch {
	case err != nil:
	case there && mark != at.Mark:
		stop.Reason = source.StopDiverged
		stop.Text = fmt.Sprintf("message %d is another one than was read", at.Seq)
	case !there && !a.takes(): // it was deleted: what is younger has to be behind it. A work queue has no room for a consumer that tells
		var before uint64
		if before, err = a.before(ctx, time.Unix(0, at.Time+1)); err == nil && before+1 < at.Seq {
			stop.Reason = source.StopDiverged
			stop.Text = fmt.Sprintf("message %d is younger than message %d that was read, which is not there", before+1, at.Seq)
		}
	}
	return stop, err
}

// doubt is a stop whose reason has not lasted long enough yet, as it was first seen, with the end that the stream
// had then.
type doubt struct {
	source.Stop
	since time.Time
}

// doubtError is the error of a doubt: it becomes a stop if it lasts.
type doubtError struct {
	stop source.Stop
	more time.Duration
}

func (e *doubtError) Error() string {
	return fmt.Sprintf("%s: %s; the source stops if that is so for %s more", e.stop.Reason, e.stop.Text, e.more.Round(time.Second))
}

// suspect stops the source if the same reason has lasted longer than a leader without a quorum could report it.
func (a *attempt) suspect(ctx context.Context, stop source.Stop) error {
	if _, _, err := a.stream.mark(ctx, a.source.Position.Seq); err != nil {
		a.doubt = doubt{}
		return err
	}
	if a.doubt.Reason != stop.Reason {
		a.doubt = doubt{stop, time.Now()}
	}
	stop = a.doubt.Stop
	if held := time.Since(a.doubt.since); held < a.runners.Hold {
		return &doubtError{stop, a.runners.Hold - held}
	}
	a.doubt = doubt{}
	return a.halt(ctx, stop)
}

func (a *attempt) stopped(stop *source.Stop) {
	a.runners.Log.Warn("a source stopped: a person has to look", "queue", a.id.queue, "source", a.id.name, "reason", stop.Reason, "text", stop.Text)
	a.tell(protocol.SourceEvent{Type: protocol.EventSourceStopped, Reason: string(stop.Reason), Text: stop.Text})
}

// skipped reports messages that the stream has dropped, together with dropped messages that were not reported yet.
func (w *worker) skipped(n int64) {
	if w.untold += n; w.untold > 0 && w.tell(protocol.SourceEvent{Type: protocol.EventSourceSkipped, Count: w.untold}) {
		w.untold = 0
	}
}

// tell publishes an event, each type at most once a minute. It reports whether it did.
func (w *worker) tell(e protocol.SourceEvent) bool {
	if at, is := w.told[e.Type]; is && time.Since(at) < time.Minute {
		return false
	}
	w.told[e.Type] = time.Now()
	e.Queue, e.Source = w.id.queue, w.id.name
	w.runners.Event(e)
	return true
}

// ephemeral is the consumer of a source in mode copy. It keeps nothing, and the server removes it by itself.
func (a *attempt) ephemeral() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name: "pq-" + nats.NewInbox()[len("_INBOX."):], Description: "source " + a.id.name + " of queue " + a.id.queue,
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: a.source.Position.Seq + 1,
		FilterSubjects: a.source.Config.Filter, MemoryStorage: true, Replicas: 1, InactiveThreshold: consumerStays,
	}
}

// consumer makes or finds the consumer of the source, and returns its name.
func (a *attempt) consumer(ctx context.Context) (string, error) {
	if a.takes() {
		return a.durable(ctx)
	}
	made, err := a.stream.create(ctx, a.ephemeral(), "create")
	return made.Name, err
}
