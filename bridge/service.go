package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// service answers the questions of NATS' service discovery. It is not made
// with micro.AddService, which handles one request at a time and counts those
// answered later as if they took no time.
type service struct {
	bridge   *Bridge
	identity micro.ServiceIdentity
	started  time.Time
	subs     []*nats.Subscription
}

func (s *service) start(ctx context.Context, b *Bridge, self peers.Identity) error {
	s.bridge, s.started = b, time.Now().UTC()
	s.identity = micro.ServiceIdentity{
		Name: peers.ServiceName, ID: self.ID, Version: b.options.Version, Metadata: self.Metadata(),
	}
	if err := connected(ctx, b.nc); err != nil {
		return err
	}
	for verb, answer := range map[micro.Verb]func() any{
		micro.PingVerb:  func() any { return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType} },
		micro.InfoVerb:  func() any { return s.info() },
		micro.StatsVerb: func() any { return s.stats() },
	} {
		if err := s.subscribe(verb, answer); err != nil {
			s.stop()
			return err
		}
	}
	// This bridge can be found now.
	if b.options.Exclusive {
		if err := b.peers.Rivals.Refuse(ctx); err != nil {
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
			s.bridge.peers.Rivals.Prove(m)
		}
		if !s.bridge.replies.answers(m.Reply) {
			return
		}
		body, err := json.Marshal(answer())
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			s.bridge.options.Logger.Debug("answering discovery failed", "subject", m.Subject, "error", err)
		}
	}
	for _, to := range [][2]string{{"", ""}, {peers.ServiceName, ""}, {peers.ServiceName, s.identity.ID}} {
		subject, err := micro.ControlSubject(verb, to[0], to[1])
		if err != nil {
			return err
		}
		sub, err := s.bridge.nc.Subscribe(subject, handle)
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
		s.bridge.options.Logger.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
	}
}

func (s *service) info() micro.Info {
	info := micro.Info{
		ServiceIdentity: s.identity,
		Type:            micro.InfoResponseType,
		Description:     "durable double-ended priority queues",
	}
	for _, v := range endpoints() {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{
			Name: v.name, Subject: s.bridge.options.Prefix + "." + v.pattern, QueueGroup: queueGroup,
			Metadata: map[string]string{},
		})
	}
	return info
}

func (s *service) stats() micro.Stats {
	b := s.bridge
	stats := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: b.service.started}
	for _, v := range endpoints() {
		counted := &b.stats.verbs[v.index]
		requests, failures := counted.requests()
		endpoint := &micro.EndpointStats{
			Name: v.name, Subject: b.options.Prefix + "." + v.pattern, QueueGroup: queueGroup,
			NumRequests: int(requests), NumErrors: int(failures),
			ProcessingTime: time.Duration(counted.nanos.Load()),
		}
		if code := int(counted.lastCode.Load()); code != 0 {
			// Its text may quote a request, and is for that client alone.
			endpoint.LastError = strconv.Itoa(code) + ": " + (&failure{code: code}).describe()
		}
		if requests > 0 {
			endpoint.AverageProcessingTime = endpoint.ProcessingTime / time.Duration(requests)
		}
		if v == verbInfo {
			endpoint.Data = s.queues()
		}
		stats.Endpoints = append(stats.Endpoints, endpoint)
	}
	return stats
}

// queueStats is what STATS shows of a queue, in the data of the endpoint info.
type queueStats struct {
	Ready   int64   `json:"ready"`
	Leased  int64   `json:"leased"`
	Delayed int64   `json:"delayed"`
	Oldest  float64 `json:"oldest"`
	Waiting int     `json:"waiting"`
}

const (
	// statsQueues bounds the queues in an answer, which has to be small.
	statsQueues = 200

	// statsTimeout bounds the reads of the store: a client of discovery collects
	// answers for a short time only.
	statsTimeout = time.Second
)

func (s *service) queues() json.RawMessage {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	queues, err := s.bridge.queueStats(ctx, statsQueues)
	if err != nil {
		s.bridge.options.Logger.Debug("reading the statistics of the queues failed", "error", err)
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

// statsReaders is how many queues are read at the same time: over a network, reading
// many queues one by one would take seconds.
const statsReaders = 16

// queueStats reads the first queues, up to a limit. With an error it also returns the
// queues that it has read.
func (b *Bridge) queueStats(ctx context.Context, most int) (map[string]queueStats, error) {
	var names []string
	err := b.store.View(ctx, func(r kv.Reader) (err error) {
		names, err = b.store.Queues(r, "", most)
		return err
	})
	if err != nil {
		return nil, err
	}
	queues := make(map[string]queueStats, len(names))
	var mu sync.Mutex
	var readers sync.WaitGroup
	for part := range slices.Chunk(names, max(1, (len(names)+statsReaders-1)/statsReaders)) {
		readers.Go(func() {
			found, partErr := b.statsOf(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(queues, found)
			err = errors.Join(err, partErr)
		})
	}
	readers.Wait()
	return queues, err
}

func (b *Bridge) statsOf(ctx context.Context, names []string) (map[string]queueStats, error) {
	queues := make(map[string]queueStats, len(names))
	err := b.store.View(ctx, func(r kv.Reader) error {
		clear(queues)
		for _, name := range names {
			i, err := b.store.Queue(name).Inspect(r)
			if err != nil {
				return err
			}
			if i == nil {
				continue
			}
			queues[name] = queueStats{
				Ready: i.Ready, Leased: i.Leased, Delayed: i.Delayed,
				Oldest: age(i), Waiting: b.waiting.WaitingAt(name),
			}
		}
		return nil
	})
	return queues, err
}
