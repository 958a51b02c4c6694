package foreign

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
)

// stream is a JetStream stream. Its messages are read by their sequences, because a work queue
// allows no second consumer.
type stream struct {
	jetstream.Stream
	Options
	priority, key value
	nc            *nats.Conn
	info          *jetstream.StreamInfo
}

func openStream(name string, o Options, connect func() (*nats.Conn, error)) (Source, error) {
	s := &stream{Options: o}
	var err error
	if s.priority, err = parseValue("priority", o.Priority); err != nil {
		return nil, err
	}
	if s.key, err = parseValue("key", o.Key); err != nil {
		return nil, err
	}
	if s.nc, err = connect(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(s.nc)
	if err == nil {
		s.Stream, err = js.Stream(context.Background(), name)
	}
	if err != nil {
		s.nc.Close()
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	s.info = s.CachedInfo()
	return s, nil
}

func (s *stream) Close() error {
	s.nc.Close()
	return nil
}

func (s *stream) Census(ctx context.Context) (c Census, err error) {
	c.Jobs = int64(s.info.State.Msgs)
	consumers := s.ListConsumers(ctx)
	for info := range consumers.Info() {
		c.Held += int64(info.NumAckPending)
	}
	return c, consumers.Err()
}

// ahead is how many messages are asked for at a time.
const ahead = 128

func (s *stream) Each(ctx context.Context, job func(Job) error) error {
	for seq, last := s.info.State.FirstSeq, s.info.State.LastSeq; seq <= last; seq += ahead {
		found, err := s.get(ctx, seq, min(last, seq+ahead-1))
		if err != nil {
			return err
		}
		none := true
		for _, m := range found {
			if m == nil || m.Header.Get("Nats-Schedule") != "" || m.Header.Get("Nats-Marker-Reason") != "" {
				none = none && m == nil
				continue // acknowledged meanwhile; or no message for consumers
			}
			none = false
			item, wrong := s.item(m)
			if err := job(Job{item, fmt.Sprintf("message %d on %s", m.Sequence, m.Subject), wrong}); err != nil {
				return err
			}
		}
		if none { // pass over what is not there
			next, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			seq = max(seq, next.Sequence-min(next.Sequence, ahead))
		}
	}
	return nil
}

// get reads messages; nil: there is none of the number.
func (s *stream) get(ctx context.Context, first, last uint64) ([]*jetstream.RawStreamMsg, error) {
	found, errs := make([]*jetstream.RawStreamMsg, last-first+1), make([]error, last-first+1)
	var all sync.WaitGroup
	for i := range found {
		all.Go(func() {
			m, err := s.GetMsg(ctx, first+uint64(i))
			if found[i] = m; errors.Is(err, jetstream.ErrMsgNotFound) {
				found[i], err = nil, nil
			}
			errs[i] = err
		})
	}
	all.Wait()
	return found, errors.Join(errs...)
}

// item is a message as an item, without the headers that belong to JetStream and to pqbridge.
func (s *stream) item(m *jetstream.RawStreamMsg) (*client.Import, error) {
	item := &client.Import{
		Payload: m.Data, Header: nats.Header{}, Pushed: m.Time,
		Unique: fmt.Sprintf("jetstream:%s:%d:%d", s.info.Config.Name, s.info.Created.UnixNano(), m.Sequence),
	}
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") && !strings.HasPrefix(name, "PQ-") {
			item.Header[name] = values
		}
	}
	if text, there := s.priority.of(m); there {
		var err error
		if item.Priority, err = strconv.ParseInt(text, 10, 64); err != nil {
			return item, fmt.Errorf("priority %q: expected an integer", text)
		}
	}
	item.Key, _ = s.key.of(m)
	if ttl := m.Header.Get("Nats-TTL"); ttl != "" && ttl != "never" {
		lasts, err := time.ParseDuration(ttl)
		if err != nil {
			seconds, bad := strconv.ParseInt(ttl, 10, 32)
			if bad != nil {
				return item, fmt.Errorf("Nats-TTL %q: expected a duration", ttl)
			}
			lasts = time.Duration(seconds) * time.Second
		}
		item.Expires = m.Time.Add(lasts)
	}
	return item, nil
}

// value is where a value of an item comes from: a header of the message, a token of its subject,
// or a constant.
type value struct {
	header, constant string
	token            int // from 1 on; 0: none
}

func parseValue(what, text string) (v value, err error) {
	from, name, _ := strings.Cut(text, ":")
	switch {
	case from == "header" && name != "":
		v.header = name
	case from == "token":
		if v.token, err = strconv.Atoi(name); err != nil || v.token < 1 {
			err = fmt.Errorf("%s is %q: expected token:<number>, from 1 on", what, text)
		}
	default:
		v.constant = text
	}
	return v, err
}

// of returns the value for a message. A message without the header or the token has none.
func (v value) of(m *jetstream.RawStreamMsg) (text string, there bool) {
	switch {
	case v.header != "":
		text = m.Header.Get(v.header)
	case v.token > 0:
		if tokens := strings.Split(m.Subject, "."); v.token <= len(tokens) {
			text = tokens[v.token-1]
		}
	default:
		text = v.constant
	}
	return text, text != ""
}
