package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// service answers NATS service discovery. It does not use micro.AddService, which handles
// one request at a time and measures no time for requests that are answered later.
type service struct {
	nc      *nats.Conn
	log     *slog.Logger
	about   *about
	self    peers.Identity
	replies *replies
	peers   *peers.Peers
	stats   *request.Statistics
	queues  *survey.Surveyor

	subs []*nats.Subscription
}

func (s *service) start(ctx context.Context) error {
	if err := connected(ctx, s.nc); err != nil {
		return err
	}
	for verb, answer := range map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return s.ping() },
		micro.InfoVerb:  func() any { return s.info() },
		micro.StatsVerb: func() any { return s.counts() },
	} {
		if err := s.subscribe(verb, answer); err != nil {
			s.stop()
			return err
		}
	}
	// This bridge can be found now.
	if s.about.options.Exclusive {
		if err := s.peers.Rivals.Refuse(ctx); err != nil {
			s.stop()
			return err
		}
	}
	return nil
}

// connected waits until the connection is up for the first time.
func connected(ctx context.Context, nc *nats.Conn) error {
	up := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(up)
	for !nc.IsConnected() {
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-up:
		case <-ctx.Done():
			return fmt.Errorf("connect to NATS: %w", ctx.Err())
		}
	}
	return nil
}

func (s *service) subscribe(verb micro.Verb, answer func() any) error {
	handle := func(m *nats.Msg) {
		if verb == micro.InfoVerb {
			s.peers.Prove(m)
		}
		if !s.replies.answers(m.Reply) {
			return
		}
		body, err := json.Marshal(answer())
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			s.log.Debug("answering discovery failed", "subject", m.Subject, "error", err)
		}
	}
	for _, to := range [][2]string{{"", ""}, {peers.ServiceName, ""}, {peers.ServiceName, s.self.ID}} {
		subject, err := micro.ControlSubject(verb, to[0], to[1])
		if err != nil {
			return err
		}
		sub, err := s.nc.Subscribe(subject, handle)
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		s.subs = append(s.subs, sub)
	}
	return nil
}

func (s *service) stop() {
	for _, sub := range s.subs {
		s.unsubscribe(sub)
	}
	s.subs = nil
}

func (s *service) unsubscribe(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil {
		s.log.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
	}
}

// identity is the bridge's identity in service discovery.
func (s *service) identity() micro.ServiceIdentity {
	return micro.ServiceIdentity{
		Name: peers.ServiceName, ID: s.self.ID, Version: s.about.options.Version, Metadata: s.self.On(s.nc).Metadata(),
	}
}

// ping says since when the bridge runs, as STATS do. The metadata say so only for bridges that may have to give way
// to others.
type ping struct {
	micro.Ping
	Started time.Time `json:"started"`
}

func (s *service) ping() ping {
	return ping{micro.Ping{ServiceIdentity: s.identity(), Type: micro.PingResponseType}, s.about.started}
}

func (s *service) info() micro.Info {
	info := micro.Info{
		ServiceIdentity: s.identity(),
		Type:            micro.InfoResponseType,
		Description:     "durable double-ended priority queues",
	}
	for _, v := range endpoints() {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{
			Name: v.Name, Subject: s.subject(v), QueueGroup: QueueGroup,
			Metadata: map[string]string{},
		})
	}
	return info
}

// subject is the pattern of the requests of a verb.
func (s *service) subject(v *verb) string {
	prefix := s.about.options.Prefix + "."
	if s.about.options.Tenants != nil && strings.HasPrefix(v.Pattern, "*") {
		prefix += "*."
	}
	return prefix + v.Pattern
}

func (s *service) counts() micro.Stats {
	stats := micro.Stats{ServiceIdentity: s.identity(), Type: micro.StatsResponseType, Started: s.about.started}
	for _, v := range endpoints() {
		counted := &s.stats.Verbs[v.Index]
		requests, failures := counted.Requests()
		endpoint := &micro.EndpointStats{
			Name: v.Name, Subject: s.subject(v), QueueGroup: QueueGroup,
			NumRequests: int(requests), NumErrors: int(failures),
			ProcessingTime: counted.Time(),
		}
		if code := counted.LastCode(); code != 0 {
			// The text may quote a request of another client, so only the code is shown.
			endpoint.LastError = strconv.Itoa(code) + ": " + (&failure.Failure{Code: code}).Describe()
		}
		if requests > 0 {
			endpoint.AverageProcessingTime = endpoint.ProcessingTime / time.Duration(requests)
		}
		if v == verbInfo {
			endpoint.Data = s.queueStats()
		}
		stats.Endpoints = append(stats.Endpoints, endpoint)
	}
	return stats
}

const (
	// statsQueues bounds the queues in an answer, which has to be small.
	statsQueues = 200

	// statsTimeout bounds the reads of the store: a client of discovery collects
	// answers for a short time only.
	statsTimeout = time.Second
)

func (s *service) queueStats() json.RawMessage {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	queues, err := s.queues.Stats(ctx, statsQueues)
	if err != nil {
		s.log.Debug("reading the statistics of the queues failed", "error", err)
	}
	if queues == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{"queues": queues})
	if err != nil {
		return nil
	}
	return body
}

// about is a bridge's description of itself.
type about struct {
	options Options
	storeID string
	started time.Time
	id      string // as in discovery

	maxQueueBytes int64
}

// identity is for the other bridges.
func (a *about) identity() peers.Identity {
	self := peers.Identity{ID: a.id, Prefix: a.options.Prefix, Site: a.options.Site, StoreID: a.storeID}
	if a.options.Exclusive {
		self.Started = a.started
	}
	return self
}

// system is the answer of _sys.info, except the size of a payload, which may change.
func (a *about) system() protocol.System {
	limits := &a.options.Limits
	system := protocol.System{
		Version: a.options.Version, Store: a.options.StoreName, StoreID: a.storeID,
		Prefix: a.options.Prefix, Site: a.options.Site, Uptime: time.Since(a.started).Seconds(), Damage: a.options.Damage(), Disk: a.options.Disk(),
		Limits: protocol.Limits{
			Requests: limits.Requests, Bytes: limits.Bytes, Waiters: limits.Waiters,
			Batch: fdbpq.MaxBatch, BatchBytes: fdbpq.MaxBatchBytes, Bundle: protocol.MaxBundle,
			Wait: protocol.Duration(protocol.MaxWait), WaitUnseen: protocol.Duration(a.options.unseen), Lease: protocol.Duration(fdbpq.MaxLease),
			QueueBytes: a.maxQueueBytes,
		},
	}
	if a.options.Cluster != nil {
		cluster := a.options.Cluster.options.Status()
		system.Cluster = &cluster
	}
	return system
}

// history adds the bridge to a history.
func (a *about) history(h *protocol.History) *protocol.History {
	h.Bridge = a.id
	return h
}

// errStandby ends the waits of pops when the bridge goes on standby.
var errStandby = &failure.Failure{Code: 409, Text: "this bridge leaves the prefix to another one: ask again", Description: protocol.DescriptionShutdown}

// standby pauses the bridge while a rival serves its prefix, and resumes it.
type standby struct {
	receiver *receiver.Receiver
	waits
}

// waits has all requests that wait: for items, and for results.
type waits struct {
	pops    *pops.Waits
	workers *workers
}

// close ends all waits. Until open, no request may wait.
func (w waits) close(why error) {
	w.pops.Close(why)
	w.workers.results.Close(why)
}

func (w waits) open() {
	w.pops.Open()
	w.workers.results.Open()
}

// The fronts of a bridge: the prefix, and the one that other sites use.
const (
	frontHere = iota
	frontRemote
)

// enter unsubscribes. Requests that have arrived are still served. Waiting pops are
// refused, because new items go to the other bridge now.
func (s *standby) enter(ctx context.Context) error {
	err := s.receiver.Pause(ctx, frontHere)
	s.close(errStandby)
	return err
}

// leave subscribes again.
func (s *standby) leave() error {
	s.open()
	return s.receiver.Resume(frontHere)
}

// enterRemote and leaveRemote do the same for requests of other sites, whose waiting pops go on.
func (s *standby) enterRemote(ctx context.Context) error { return s.receiver.Pause(ctx, frontRemote) }
func (s *standby) leaveRemote() error                    { return s.receiver.Resume(frontRemote) }
