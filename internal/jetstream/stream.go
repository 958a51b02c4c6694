package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Options describe a log.
type Options struct {
	Name     string // of the store: letters, digits, - and _
	Replicas int    // of the stream; 0: three
	MaxBytes int64  // that the stream may take; needed to make it
	Domain   string // of JetStream; "": the connection's own
}

// The version of nats-server that a log needs: earlier ones checked the expected
// sequence of an append wrongly after a change of leader.
const needsMajor, needsMinor = 2, 14

// DefaultReplicas survive the loss of a server.
const DefaultReplicas = 3

// ErrStream means that the stream is not configured as the log needs it.
var ErrStream = errors.New("the stream cannot be used as a log")

// ErrVersion means that a server is too old.
var ErrVersion = errors.New("the NATS server is too old")

// names are the names that a store may have, since its name is a part of the stream's and of subjects.
var names = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckName returns an error, with the rule, unless a store may have the name.
func CheckName(name string) error {
	if !names.MatchString(name) {
		return errors.New("expected a name of 1 to 64 letters, digits, - and _")
	}
	return nil
}

// Stream is the name of the stream that has the log of a store in a generation.
func Stream(store string, generation uint64) string {
	return streamPrefix(store) + strconv.FormatUint(generation, 10)
}

func streamPrefix(store string) string { return "PQ_" + store + "_" }

// root begins all subjects of a store in a generation.
func root(store string, generation string) string { return "PQ_CLUSTER." + store + "." + generation }

// Root begins the subjects of messages between members. Members of all generations
// have to hear each other, so it stays the same.
func Root(store string) string { return root(store, "1") }

// subject is the subject that the stream of a generation stores; * stands for all generations.
func (o Options) subject(generation string) string { return root(o.Name, generation) + ".log" }

func (o Options) replicas() int { return cmp.Or(o.Replicas, DefaultReplicas) }

// config is the configuration of a new stream.
func (l *Log) config(size int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        l.stream,
		Description: "the log of the pqd store " + l.options.Name + ": whoever changes or deletes it loses the queues",
		Subjects:    []string{l.subject},
		Storage:     jetstream.FileStorage,
		Replicas:    l.options.replicas(),
		Discard:     jetstream.DiscardNew,
		MaxBytes:    size,
		MaxMsgs:     -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Duplicates:  duplicates,
		DenyDelete:  true,
		AllowDirect: true,
	}
}

// duplicates is the shortest window that a server accepts: no entry has a message id.
const duplicates = 100 * time.Millisecond

// checkStream says why a stream cannot be the log, or nil. An operator of the server may change a stream's size,
// replicas, placement and description, and nothing else.
func (l *Log) checkStream(c *jetstream.StreamConfig) error {
	var wrong []string
	expect := func(ok bool, what string, found any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s, found %v", what, found))
		}
	}
	expect(len(c.Subjects) == 1 && c.Subjects[0] == l.subject, "subjects: "+l.subject, c.Subjects)
	expect(c.Storage == jetstream.FileStorage, "storage: file", c.Storage)
	expect(c.Retention == jetstream.LimitsPolicy, "retention: limits", c.Retention)
	expect(c.Discard == jetstream.DiscardNew, "discard: new", c.Discard)
	expect(c.MaxBytes > 0, "max_bytes", c.MaxBytes)
	expect(c.MaxMsgs <= 0, "no max_msgs", c.MaxMsgs)
	expect(c.MaxMsgsPerSubject <= 0, "no max_msgs_per_subject", c.MaxMsgsPerSubject)
	expect(c.MaxAge == 0, "no max_age", c.MaxAge)
	expect(c.DenyDelete, "deny_delete: true", c.DenyDelete)
	expect(!c.DenyPurge, "deny_purge: false", c.DenyPurge)
	expect(c.AllowDirect, "allow_direct: true", c.AllowDirect)
	expect(!c.AllowRollup, "allow_rollup_hdrs: false", c.AllowRollup)
	expect(!c.AllowMsgTTL, "allow_msg_ttl: false", c.AllowMsgTTL)
	expect(!c.NoAck, "no_ack: false", c.NoAck)
	expect(!c.Sealed, "sealed: false", c.Sealed)
	expect(c.Mirror == nil && len(c.Sources) == 0, "neither mirror nor sources", "one")
	expect(c.SubjectTransform == nil, "no subject_transform", c.SubjectTransform)
	expect(c.PersistMode == jetstream.DefaultPersistMode, "persist_mode: default", c.PersistMode)
	if len(wrong) > 0 {
		return fmt.Errorf("%w: stream %s: expected %s", ErrStream, c.Name, strings.Join(wrong, "; expected "))
	}
	return nil
}

// Create implements cluster.Log.
func (l *Log) Create(ctx context.Context) error {
	if err := l.checkServer(); err != nil {
		return err
	}
	if _, err := l.look(ctx); err == nil || !errors.Is(err, cluster.ErrNoLog) {
		return err
	}
	size := l.size.Load()
	if size <= 0 {
		return fmt.Errorf("there is no stream %s, and max_bytes, its largest size, is not known", l.stream)
	}
	return l.create(ctx, size)
}

// incomplete is in the metadata of a stream that lacks replicas, because so many servers were
// away when it was made.
const incomplete = "pqd-replicas"

// errNoPeers: too few servers run.
const errNoPeers = 10005

func (l *Log) create(ctx context.Context, size int64) error {
	config := l.config(size)
	config.Metadata = l.inherited(ctx)
	s, err := l.js.CreateStream(ctx, config)
	var refusal *jetstream.APIError
	if errors.As(err, &refusal) && refusal.ErrorCode == errNoPeers && config.Replicas > 1 {
		// A recovery cannot wait for a server that is lost. A majority of the replicas keeps what it has
		// acknowledged.
		config.Metadata[incomplete] = strconv.Itoa(config.Replicas)
		config.Replicas = config.Replicas/2 + 1
		s, err = l.js.CreateStream(ctx, config)
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // since we looked, or there is one with another configuration
		_, err = l.look(ctx)
		return err
	case err != nil:
		return fmt.Errorf("make stream %s: %w", l.stream, err)
	}
	return l.checkStream(&s.CachedInfo().Config)
}

// replaced is in the metadata of a stream: the members that were replaced for good, the last one at the end.
const replaced = "pqd-replaced"

// mostReplaced is how many are remembered: a server bounds the metadata of a stream.
const mostReplaced = 100

// Replaced are the members that were replaced for good, as far as the stream of the log remembers.
func Replaced(c *jetstream.StreamConfig) []string {
	if c.Metadata[replaced] == "" {
		return nil
	}
	return strings.Split(c.Metadata[replaced], ",")
}

// Replace notes in the configuration of the log's stream that a member has the place of another one, and reports whether it
// did not say so yet. A member that was replaced once may have the place of another one later.
func Replace(c *jetstream.StreamConfig, old, by string) (changed bool) {
	before := Replaced(c)
	if slices.Contains(before, old) && !slices.Contains(before, by) {
		return false
	}
	after := append(slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == old || name == by }), old)
	after = after[max(0, len(after)-mostReplaced):]
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = make(map[string]string)
	}
	c.Metadata[replaced] = strings.Join(after, ",")
	return true
}

// inheritLimit bounds the look at the generation before, whose servers may be lost.
const inheritLimit = 2 * time.Second

// inherited is what a new stream remembers of the generation before. If that one does not answer, it begins with nothing: a
// recovery must not fail by that.
func (l *Log) inherited(ctx context.Context) map[string]string {
	own := make(map[string]string)
	if l.before == "" {
		return own
	}
	ctx, cancel := context.WithTimeout(ctx, inheritLimit)
	defer cancel()
	if s, err := l.js.Stream(ctx, l.before); err == nil && s.CachedInfo().Config.Metadata[replaced] != "" {
		own[replaced] = s.CachedInfo().Config.Metadata[replaced]
	}
	return own
}

// look finds the stream as it is now, and checks it.
func (l *Log) look(ctx context.Context) (jetstream.Stream, error) {
	s, err := l.find(ctx)
	if err != nil {
		return nil, err
	}
	return s, l.checkStream(&s.CachedInfo().Config)
}

func (l *Log) find(ctx context.Context) (jetstream.Stream, error) {
	var s jetstream.Stream
	err := patiently(ctx, answerLimit, func(ctx context.Context) (err error) {
		s, err = l.js.Stream(ctx, l.stream)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: stream %s: %w", cluster.ErrNoLog, l.stream, err)
	case err != nil:
		return nil, fmt.Errorf("look at stream %s: %w", l.stream, err)
	}
	return s, nil
}

// Complete implements cluster.Log.
func (l *Log) Complete(ctx context.Context) error {
	s, err := l.find(ctx)
	if err != nil {
		return err
	}
	config := s.CachedInfo().Config
	if config.Metadata[incomplete] == "" {
		return nil
	}
	delete(config.Metadata, incomplete)
	config.Replicas = l.options.replicas()
	if _, err := l.js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("give stream %s the replicas that it lacks: %w", l.stream, err)
	}
	return nil
}

// State implements cluster.Log.
func (l *Log) State(ctx context.Context) (cluster.LogState, error) {
	if err := l.checkServer(); err != nil {
		return cluster.LogState{}, err
	}
	s, err := l.look(ctx)
	if err != nil {
		return cluster.LogState{}, err
	}
	info := s.CachedInfo()
	ended := info.State.FirstSeq >= endAt
	if !ended {
		l.size.CompareAndSwap(0, info.Config.MaxBytes)
	}
	taken, most := info.State.Bytes, uint64(info.Config.MaxBytes)
	if left, limited := l.accountRoom(ctx); limited && !ended && left < most {
		taken = max(taken, most-left)
	}
	return cluster.LogState{
		Identity: info.Config.Name + " " + info.Created.UTC().Format(time.RFC3339Nano),
		Ended:    ended,
		First:    max(info.State.FirstSeq, 1), // 0 in a stream that never had an entry
		Last:     info.State.LastSeq,
		Bytes:    taken,
		MaxBytes: most,
	}, nil
}

// Purge implements cluster.Log.
func (l *Log) Purge(ctx context.Context, first uint64) error {
	s, err := l.look(ctx)
	if err != nil {
		return err
	}
	// The server keeps more entries if it knows of more.
	state := s.CachedInfo().State
	first = min(first, state.LastSeq)
	if first <= max(state.FirstSeq, 1) {
		return nil
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(first)); err != nil {
		return fmt.Errorf("purge stream %s: %w", l.stream, err)
	}
	return nil
}

// checkServer refuses a server that is too old. It looks again after each reconnect.
func (l *Log) checkServer() error {
	version := l.nc.ConnectedServerVersion()
	if version == "" {
		return nats.ErrDisconnected
	}
	if checked := l.checked.Load(); checked != nil && *checked == version {
		return nil
	}
	if !recent(version) {
		return fmt.Errorf("%w: found version %s, expected %d.%d or later", ErrVersion, version, needsMajor, needsMinor)
	}
	l.checked.Store(&version)
	return nil
}

// recent reports whether a log can rely on a version.
func recent(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a > needsMajor || a == needsMajor && b >= needsMinor)
}
