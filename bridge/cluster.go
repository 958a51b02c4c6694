package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// ClusterEndpoint answers requests about the processes that keep a store together. Each
// process has one as long as it runs, because status matters most when no bridge serves.
// Requests to step down come from the bridge of the active process, so that one process
// gets each of them. An endpoint reads no store.
type ClusterEndpoint struct {
	options ClusterOptions
	grammar subjects.Grammar
	replies *replies
	answers request.Responder
	nc      *nats.Conn

	ctx    context.Context // ends with the endpoint
	cancel context.CancelFunc
	mu     sync.Mutex // held while ended changes and a change begins
	ended  bool
	under  sync.WaitGroup // changes
	subs   []*nats.Subscription
}

// ClusterOptions configure a [ClusterEndpoint]. All but Site and ReplySubjects are required.
type ClusterOptions struct {
	Prefix        string
	Site          string   // as in Options
	ReplySubjects []string // as in Options
	Logger        *slog.Logger

	// Status describes the cluster, beginning with this process. It must not block.
	Status func() protocol.Cluster

	// StepDown hands the store over from this process to the named one, or to any if to is empty, and returns when
	// the other process may take over. After an error other than a *Refusal it is not known whether it takes over.
	StepDown func(ctx context.Context, to string) (protocol.SteppedDown, error)

	// Replace gives a node the place of a lost node. It returns the same errors as StepDown.
	Replace func(ctx context.Context, old, by string) (protocol.Replaced, error)
}

// changeLimit bounds a hand-over, and the replacement of a node.
const changeLimit = 20 * time.Second

// ServeCluster starts an endpoint. The connection belongs to the caller.
func ServeCluster(nc *nats.Conn, o ClusterOptions) (*ClusterEndpoint, error) {
	grammar, err := o.grammar()
	if err != nil {
		return nil, err
	}
	replies, err := newReplies(Options{Prefix: o.Prefix, Site: o.Site, ReplySubjects: o.ReplySubjects, Logger: o.Logger}, "")
	if err != nil {
		return nil, err
	}
	e := &ClusterEndpoint{options: o, grammar: grammar, replies: replies, nc: nc, answers: request.Responder{Conn: nc, Log: o.Logger}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	for _, g := range grammar.Each() {
		if err := e.subscribe(g); err != nil {
			e.cancel()
			e.unsubscribe()
			return nil, err
		}
	}
	return e, nil
}

// subscribe subscribes to requests for the status under a prefix.
func (e *ClusterEndpoint) subscribe(g subjects.Grammar) error {
	subject, err := g.Build(subjects.Subject{Verb: subjects.SysClusterStatus})
	if err != nil {
		return err
	}
	sub, err := e.nc.Subscribe(subject, e.status) // without a queue group: each process answers
	if err == nil {
		e.subs = append(e.subs, sub)
	}
	return err
}

func (e *ClusterEndpoint) unsubscribe() {
	for _, sub := range e.subs {
		if err := sub.Unsubscribe(); err != nil {
			e.options.Logger.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}
}

// Stop ends the endpoint, and waits for the answer to a hand-over.
func (e *ClusterEndpoint) Stop() {
	e.unsubscribe()
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	e.cancel()
	e.under.Wait()
}

// clusterVerb is the form of refusals of these requests.
var clusterVerb = request.Verb{Name: "cluster"}

// request reads the request of a message; ok is false if it gets no answer.
func (e *ClusterEndpoint) request(s subjects.Subject, m *nats.Msg) (r *request.Request, ok bool) {
	if m.Reply == "" {
		return nil, false
	}
	if !e.replies.answers(m.Reply) {
		e.replies.refuse("", m)
		return nil, false
	}
	return &request.Request{Verb: &clusterVerb, Subject: s, Msg: m}, true
}

// status answers a request for the status.
func (e *ClusterEndpoint) status(m *nats.Msg) {
	s := subjects.Subject{Verb: subjects.SysClusterStatus}
	r, ok := e.request(s, m)
	if !ok {
		return
	}
	if f := codec.NoOptions(m, s.Verb.String()); f != nil {
		e.answers.AnswerFailure(r, f)
		return
	}
	e.answer(r, e.options.Status())
}

// change begins a hand-over, or the replacement of a node. It does not block.
func (e *ClusterEndpoint) change(s subjects.Subject, m *nats.Msg) {
	r, ok := e.request(s, m)
	if !ok {
		return
	}
	read := e.readStepDown
	if s.Verb == subjects.SysClusterReplace {
		read = e.readReplace
	}
	do, f := read(r)
	if f != nil {
		e.answers.AnswerFailure(r, f)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	e.under.Go(func() {
		ctx, cancel := context.WithTimeout(e.ctx, changeLimit)
		defer cancel()
		done, err := do(ctx)
		if err != nil {
			e.answers.AnswerFailure(r, explainChange(s.Verb, err))
			return
		}
		e.answer(r, done)
	})
}

// Refusal is the reason for which a process does not step down, or replaces no node. Nothing was done.
type Refusal struct {
	Malformed bool // the request makes no sense, so a retry does not help
	Text      string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// explainChange says why a change failed.
func explainChange(verb subjects.Verb, err error) *failure.Failure {
	var r *Refusal
	switch {
	case errors.As(err, &r) && r.Malformed:
		return failure.Newf(400, "%s", r.Text)
	case errors.As(err, &r):
		return failure.Newf(503, "%s", r.Text)
	case verb == subjects.SysClusterReplace:
		return failure.Newf(504, "the replacement has not ended: %s", err)
	}
	return failure.Newf(504, "whether another pqd takes over is not known yet: %s", err)
}

// readStepDown reads the name of the successor.
func (e *ClusterEndpoint) readStepDown(r *request.Request) (do func(context.Context) (any, error), f *failure.Failure) {
	to := ""
	f = readStrings(r, map[string]*string{"node": &to})
	return func(ctx context.Context) (any, error) { return e.options.StepDown(ctx, to) }, f
}

// readReplace reads the names of the lost node and of the node in its place.
func (e *ClusterEndpoint) readReplace(r *request.Request) (do func(context.Context) (any, error), f *failure.Failure) {
	old, by := "", ""
	f = readStrings(r, map[string]*string{"old": &old, "new": &by})
	return func(ctx context.Context) (any, error) { return e.options.Replace(ctx, old, by) }, f
}

// readStrings reads options that are texts.
func readStrings(r *request.Request, fields map[string]*string) *failure.Failure {
	names := slices.Sorted(maps.Keys(fields))
	return codec.ReadOptions(r.Msg, r.Subject.Verb.String(), strings.Join(names, " and "), func(name string, value any) (known bool, f *failure.Failure) {
		field, known := fields[name]
		if known {
			*field, f = codec.ReadString(name, value)
		}
		return known, f
	})
}

func (e *ClusterEndpoint) answer(r *request.Request, answer any) {
	body, err := protocol.Marshal(answer)
	if err == nil {
		err = e.nc.Publish(r.Msg.Reply, body)
	}
	if err != nil {
		e.options.Logger.Debug("answer lost", "subject", r.Msg.Reply, "error", err)
	}
}

// AnnounceActive publishes the event that a process has become active and takes requests.
func AnnounceActive(nc *nats.Conn, prefix string, e protocol.ActiveEvent) error {
	return ClusterOptions{Prefix: prefix}.AnnounceActive(nc, e)
}

// AnnounceActive publishes the event under each prefix.
func (o ClusterOptions) AnnounceActive(nc *nats.Conn, e protocol.ActiveEvent) error {
	grammar, err := o.grammar()
	if err != nil {
		return err
	}
	e.Type, e.Time = protocol.EventTypePrefix+protocol.EventActive, time.Now().UTC()
	body, err := protocol.Marshal(e)
	for _, g := range grammar.Each() {
		if err == nil {
			err = nc.Publish(g.SystemEvent(protocol.EventActive), body)
		}
	}
	return err
}

func (o ClusterOptions) grammar() (subjects.Grammar, error) {
	grammar, err := subjects.New(o.Prefix)
	if err == nil && o.Site != "" {
		grammar, err = grammar.AtSite(o.Site)
	}
	return grammar, err
}

// Successor returns a channel that is closed when a process announces that it serves in a later epoch. The NATS
// server of this process knows the subscriptions of that process by then, because the announcement comes behind
// them. forget ends the wait.
func (e *ClusterEndpoint) Successor(epoch uint64) (serves <-chan struct{}, forget func(), err error) {
	came := make(chan struct{})
	said := sync.OnceFunc(func() { close(came) })
	sub, err := e.nc.Subscribe(e.grammar.SystemEvent(protocol.EventActive), func(m *nats.Msg) {
		var event protocol.ActiveEvent
		if json.Unmarshal(m.Data, &event) == nil && event.Epoch > epoch {
			said()
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return came, func() {
		if err := sub.Unsubscribe(); err != nil {
			e.options.Logger.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}, nil
}
