package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// mostBytes bounds the bytes that a server sends at a time.
const mostBytes = 8 << 20

// The statuses of a server's answer.
const (
	statusHeader   = "Status"
	statusEnd      = "204"
	statusNotFound = "404"
)

// get asks for entries.
type get struct {
	First    uint64 `json:"seq"`
	Most     int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// Read implements cluster.Log. Any replica of the stream may answer.
func (l *Log) Read(ctx context.Context, first uint64, most int) ([][]byte, error) {
	if err := l.checkServer(); err != nil {
		return nil, err
	}
	read := l.readSeveral
	if most == 1 {
		read = l.readOne
	}
	var entries [][]byte
	err := patiently(ctx, readLimit, func(ctx context.Context) (err error) {
		entries, err = read(ctx, first, most)
		return err
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, l.unanswered(ctx, err)
	case err != nil:
		return nil, fmt.Errorf("read entry %d of stream %s: %w", first, l.stream, err)
	case len(entries) == 0:
		return nil, cluster.ErrNoEntry
	}
	return entries, nil
}

func (l *Log) readOne(ctx context.Context, first uint64, _ int) ([][]byte, error) {
	ask, err := json.Marshal(get{First: first})
	if err != nil {
		return nil, err
	}
	m, err := l.nc.RequestWithContext(ctx, l.direct, ask)
	if err != nil {
		return nil, err
	}
	entry, _, err := l.entry(m, first)
	if entry == nil || err != nil {
		return nil, err
	}
	return [][]byte{entry}, nil
}

// reads gets the answers to reads of several entries. All reads share a subscription, because every server of a
// cluster hears of each subscription that begins or ends.
type reads struct {
	mu    sync.Mutex // held during a read
	inbox string     // begins the subjects of the answers
	came  chan *nats.Msg
	count uint64
}

// readsRoom is more than the messages that a server sends at a time.
const readsRoom = 1 << 12

// ask sends a request, and returns the subject of its answers.
func (r *reads) ask(nc *nats.Conn, to string, request []byte) (answers string, err error) {
	if r.came == nil {
		inbox, came := nc.NewInbox()+".", make(chan *nats.Msg, readsRoom)
		if _, err := nc.ChanSubscribe(inbox+"*", came); err != nil {
			return "", err
		}
		r.inbox, r.came = inbox, came
	}
	r.count++
	answers = r.inbox + strconv.FormatUint(r.count, 10)
	return answers, nc.PublishRequest(to, answers, request)
}

// next returns the next answer to a request. It skips answers to earlier requests.
func (r *reads) next(ctx context.Context, answers string) (*nats.Msg, error) {
	for {
		select {
		case m := <-r.came:
			if m.Subject == answers {
				return m, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *Log) readSeveral(ctx context.Context, first uint64, most int) (entries [][]byte, err error) {
	ask, err := json.Marshal(get{First: first, Most: most, MaxBytes: mostBytes})
	if err != nil {
		return nil, err
	}
	l.reads.mu.Lock()
	defer l.reads.mu.Unlock()
	answers, err := l.reads.ask(l.nc, l.direct, ask)
	if err != nil {
		return nil, err
	}
	for {
		m, err := l.reads.next(ctx, answers)
		if err != nil {
			if len(entries) > 0 {
				return entries, nil // the server went away behind them
			}
			return nil, err
		}
		entry, end, err := l.entry(m, first+uint64(len(entries)))
		switch {
		case err != nil:
			return nil, err
		case end:
			return entries, nil
		}
		entries = append(entries, entry)
	}
}

// entry takes an entry of this number out of an answer. The answer ends with something
// else, or with an entry behind a gap.
func (l *Log) entry(m *nats.Msg, number uint64) (entry []byte, end bool, err error) {
	switch status := m.Header.Get(statusHeader); status {
	case "":
	case statusEnd, statusNotFound:
		return nil, true, nil
	case "503":
		return nil, true, nats.ErrNoResponders
	default:
		return nil, true, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
	}
	found, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil || m.Header.Get(jetstream.StreamHeader) != l.stream {
		return nil, true, fmt.Errorf("the server's answer is malformed: %v", m.Header)
	}
	if found != number {
		return nil, true, nil
	}
	return m.Data, false, nil
}

// Confirm implements cluster.Log. Only the leader of the stream answers requests of this kind.
func (l *Log) Confirm(ctx context.Context, number uint64) ([]byte, error) {
	if err := l.checkServer(); err != nil {
		return nil, err
	}
	ask, err := json.Marshal(get{First: number})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	err = patiently(ctx, answerLimit, func(ctx context.Context) error {
		m, err := l.nc.RequestWithContext(ctx, l.api+"STREAM.MSG.GET."+l.stream, ask)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &answer)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("confirm entry %d of stream %s: %w", number, l.stream, err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, cluster.ErrNoEntry
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return nil, fmt.Errorf("%w: stream %s: %w", cluster.ErrNoLog, l.stream, answer.Error)
	case answer.Error != nil:
		return nil, fmt.Errorf("confirm entry %d of stream %s: %w", number, l.stream, answer.Error)
	case answer.Message.Sequence != number:
		return nil, fmt.Errorf("confirm entry %d of stream %s: the server's answer is malformed", number, l.stream)
	}
	return answer.Message.Data, nil
}
