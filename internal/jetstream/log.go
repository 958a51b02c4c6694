package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Log is a cluster.Log in a JetStream stream, one of each generation.
type Log struct {
	*place
	stream  string
	before  string // the stream of the generation before; "": this one is the first
	subject string // of appends
	direct  string // of direct gets
}

// place is where the streams of all generations are.
type place struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	options Options
	api     string       // begins the subjects of requests to JetStream
	size    atomic.Int64 // of a stream that is made; 0: not known
	checked atomic.Pointer[string]
	account atomic.Pointer[accountRoom]
	reads   reads
}

var _ cluster.Log = (*Log)(nil)

// NewLog returns the first generation of a store's log. The connection belongs to the
// caller.
func NewLog(nc *nats.Conn, o Options) (*Log, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	p := &place{nc: nc, options: o, api: jetstream.DefaultAPIPrefix}
	p.size.Store(o.MaxBytes)
	var err error
	if o.Domain == "" {
		p.js, err = jetstream.New(nc)
	} else {
		p.api = "$JS." + o.Domain + ".API."
		p.js, err = jetstream.NewWithDomain(nc, o.Domain)
	}
	return p.log(1), err
}

func (p *place) log(generation uint64) *Log {
	stream := Stream(p.options.Name, generation)
	l := &Log{
		place: p, stream: stream, direct: p.api + "DIRECT.GET." + stream,
		subject: p.options.subject(strconv.FormatUint(generation, 10)),
	}
	if generation > 1 {
		l.before = Stream(p.options.Name, generation-1)
	}
	return l
}

const (
	// headerRoom is the room for the headers of an append or a read.
	headerRoom = 2 << 10

	// answerLimit is how long a server has to answer an attempt. A server that has gone leaves no answer, and the next
	// attempt finds another one. Any replica answers a read, so a read is repeated sooner, behind readLimit.
	answerLimit = 250 * time.Millisecond
	readLimit   = 80 * time.Millisecond

	// lookLimit is how long a stream has to say that it is there, if it did not answer a request.
	lookLimit = 100 * time.Millisecond

	// shortAttempts have the same limit. For each one behind them it doubles, since the servers may be slow.
	shortAttempts = 6
)

// patiently repeats a call until it gets an answer or ctx ends.
func patiently(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		if attempt > shortAttempts {
			limit *= 2
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		err := call(limited)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// MaxEntry implements cluster.Log.
func (l *Log) MaxEntry() int { return int(l.nc.MaxPayload()) - headerRoom }

// Append implements cluster.Log.
func (l *Log) Append(ctx context.Context, after uint64, entry []byte) error {
	if err := l.checkServer(); err != nil {
		return err
	}
	if len(entry) > l.MaxEntry() {
		return fmt.Errorf("the entry has %d bytes: expected at most %d, which max_payload of the NATS server decides", len(entry), l.MaxEntry())
	}
	m := nats.NewMsg(l.subject)
	m.Data = entry
	m.Header[jetstream.ExpectedStreamHeader] = []string{l.stream}
	m.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(after, 10)}
	// If an attempt without an answer takes effect, a later attempt is refused and finds out.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &appending{l, ctx, m, make(chan answer)}
	return patiently(ctx, answerLimit, func(ctx context.Context) error {
		reply, err := a.request(ctx)
		if err != nil {
			return err
		}
		return l.outcome(ctx, after, entry, reply)
	})
}

// appending is an append, whose answer counts whichever of its attempts it belongs to: where disks or networks are slow, each attempt
// takes longer than its limit.
type appending struct {
	*Log
	ctx     context.Context // of all attempts
	m       *nats.Msg
	answers chan answer
}

type answer struct {
	reply *nats.Msg
	err   error
}

// send begins an attempt.
func (a *appending) send() {
	reply, err := a.nc.RequestMsgWithContext(a.ctx, a.m)
	select {
	case a.answers <- answer{reply, err}:
	case <-a.ctx.Done():
	}
}

// outcome reads the answer to an append.
func (l *Log) outcome(ctx context.Context, after uint64, entry []byte, reply *nats.Msg) error {
	var ack struct {
		Stream   string              `json:"stream"`
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("append to stream %s: the server's answer is malformed: %w", l.stream, err)
	}
	switch {
	case ack.Error != nil:
		return l.refused(ctx, after, entry, ack.Error)
	case ack.Stream != l.stream || ack.Sequence != after+1:
		return fmt.Errorf("append to stream %s: the server put the entry into stream %q as number %d: expected number %d", l.stream, ack.Stream, ack.Sequence, after+1)
	}
	return nil
}

// request sends an entry and returns the answer. It waits for a stream that was just
// made, or has just lost its leader: as long as the stream has no leader, nothing is done.
func (a *appending) request(ctx context.Context) (*nats.Msg, error) {
	for pause := lookPause; ; pause = min(2*pause, longestLookPause) {
		go a.send()
		var got answer
		select {
		case got = <-a.answers:
		case <-ctx.Done():
			got.err = ctx.Err()
		}
		switch {
		case got.err == nil:
			return got.reply, nil
		case !errors.Is(got.err, nats.ErrNoResponders):
			return nil, fmt.Errorf("append to stream %s: %w", a.stream, got.err)
		}
		err := a.unanswered(ctx, got.err)
		if errors.Is(err, cluster.ErrNoLog) || errors.Is(err, ErrStream) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// unanswered says why there was no answer: there is no stream, or it has no leader now.
func (l *Log) unanswered(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if _, found := l.look(ctx); errors.Is(found, cluster.ErrNoLog) || errors.Is(found, ErrStream) {
		return found
	}
	return fmt.Errorf("stream %s has no leader now: %w", l.stream, err)
}

const (
	errWrongStream   = 10060 // the subject belongs to a stream of another name
	errWrongLast     = 10071 // the last entry has another number
	errNotStored     = 10077 // a limit of the stream, or a failure of its storage
	lookPause        = time.Millisecond
	longestLookPause = 100 * time.Millisecond
)

// lastOf is the number of the last entry that the server knows, which may not be
// committed.
func lastOf(refusal *jetstream.APIError) (last uint64, known bool) {
	_, number, _ := strings.Cut(refusal.Description, "wrong last sequence: ")
	last, err := strconv.ParseUint(number, 10, 64)
	return last, err == nil
}

// refused finds out the meaning of a refusal. Another leader of the stream may have accepted the entry, so only the
// entry in its place is a proof.
func (l *Log) refused(ctx context.Context, after uint64, entry []byte, refusal *jetstream.APIError) error {
	err := fmt.Errorf("append to stream %s behind entry %d: %w", l.stream, after, refusal)
	switch refusal.ErrorCode {
	case errWrongStream:
		return fmt.Errorf("%w: %w", cluster.ErrNoLog, err)
	case errWrongLast:
		if last, known := lastOf(refusal); known && (last <= after || last >= endAt-1) {
			return err // from a server that lags, or of a log that has ended: the entry's place cannot be read
		}
	case errNotStored:
		// With one replica there is only one leader.
		if l.options.replicas() == 1 && strings.Contains(refusal.Description, "maximum bytes") {
			return fmt.Errorf("%w: %w", cluster.ErrFull, err)
		}
		return err
	default:
		return err
	}
	for pause := lookPause; ; pause = min(2*pause, longestLookPause) {
		found, readErr := l.Read(ctx, after+1, 1)
		switch {
		case readErr == nil && bytes.Equal(found[0], entry):
			return nil
		case readErr == nil:
			return fmt.Errorf("%w: %w", cluster.ErrMoved, err)
		case !errors.Is(readErr, cluster.ErrNoEntry):
			return fmt.Errorf("%w; look at what is there: %w", err, readErr)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// Other streams of the account share its limit with the log.
const (
	accountEvery    = 2 * time.Second // between looks at an account with a limit
	accountSeldom   = time.Minute     // at an account without a limit
	accountAnswerIn = time.Second
)

// accountRoom is the last answer of an account about its room.
type accountRoom struct {
	until   time.Time // the answer counts
	limited bool
	left    uint64 // bytes that the stream still gets, if limited
}

// accountRoom returns how many bytes of the stream the account still takes, if it has a visible limit.
func (l *Log) accountRoom(ctx context.Context) (left uint64, limited bool) {
	seen := l.account.Load()
	if seen == nil || time.Now().After(seen.until) {
		seen = l.lookAtAccount(ctx)
		l.account.Store(seen)
	}
	return seen.left, seen.limited
}

func (l *Log) lookAtAccount(ctx context.Context) *accountRoom {
	ctx, cancel := context.WithTimeout(ctx, accountAnswerIn)
	defer cancel()
	info, err := l.js.AccountInfo(ctx)
	if err != nil {
		return &accountRoom{until: time.Now().Add(accountSeldom)}
	}
	// The account counts the bytes of all replicas, and so does its limit. The limit of a tier counts one replica.
	replicas := int64(l.options.replicas())
	used, limit := info.Store, info.Limits.MaxStore
	if tier, has := info.Tiers[fmt.Sprintf("R%d", replicas)]; has {
		used, limit = tier.Store, tier.Limits.MaxStore
		if limit > 0 {
			limit *= replicas
		}
	}
	if limit <= 0 {
		return &accountRoom{until: time.Now().Add(accountSeldom)}
	}
	return &accountRoom{
		until: time.Now().Add(accountEvery), limited: true,
		left: uint64(max(0, limit-int64(used)) / replicas),
	}
}

// endAt is the first entry of a stream that has ended. The stream is empty, and no append names the entry before
// endAt: a log does not get that long.
const endAt = 1 << 50

// endedBytes is the size of a stream that has ended: it reserves no room.
const endedBytes = 1 << 20

// Generation implements cluster.Log.
func (l *Log) Generation(n uint64) cluster.Log { return l.log(n) }

// Newest implements cluster.Log.
func (l *Log) Newest(ctx context.Context) (newest uint64, err error) {
	if err := l.checkServer(); err != nil {
		return 0, err
	}
	// The server that leads all streams does not answer while it ends.
	err = patiently(ctx, answerLimit, func(ctx context.Context) error {
		newest = 0
		all := l.js.StreamNames(ctx, jetstream.WithStreamListSubject(l.options.subject("*")))
		for name := range all.Name() {
			number, ours := strings.CutPrefix(name, streamPrefix(l.options.Name))
			if n, err := strconv.ParseUint(number, 10, 64); ours && err == nil {
				newest = max(newest, n)
			}
		}
		return all.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("list the streams of the store %s: %w", l.options.Name, err)
	}
	return newest, nil
}

// End implements cluster.Log. The purge is an operation of the stream's own log, so each append comes before or
// after it. It moves the number of the last entry to a place that no append names.
func (l *Log) End(ctx context.Context) error {
	if err := l.checkServer(); err != nil {
		return err
	}
	s, err := l.find(ctx)
	if errors.Is(err, cluster.ErrNoLog) {
		if err := l.create(ctx, endedBytes); err != nil {
			return err
		}
		s, err = l.find(ctx)
	}
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	if info.State.FirstSeq < endAt {
		l.size.CompareAndSwap(0, info.Config.MaxBytes) // the next generation may be as large
		if err := s.Purge(ctx, jetstream.WithPurgeSequence(endAt)); err != nil {
			return fmt.Errorf("end stream %s: %w", l.stream, err)
		}
		if info, err = s.Info(ctx); err != nil {
			return fmt.Errorf("end stream %s: %w", l.stream, err)
		}
	}
	if first := info.State.FirstSeq; first < endAt {
		return fmt.Errorf("end stream %s: after the purge it begins with entry %d, expected %d", l.stream, first, uint64(endAt))
	}
	if info.Config.MaxBytes == endedBytes {
		return nil
	}
	// Its reserved room is for the next generation.
	small := info.Config
	small.MaxBytes, small.Description = endedBytes, "the log of the pqd store "+l.options.Name+" until it lost entries. It has ended; keep it, so that no pqd takes up an old one"
	if _, err := l.js.UpdateStream(ctx, small); err != nil {
		return fmt.Errorf("make stream %s small, which has ended: %w", l.stream, err)
	}
	return nil
}
