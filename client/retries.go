package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Backoff is the backoff of a queue in its configuration, as JSON.
type Backoff = protocol.Backoff

// Attempt is a lease of an item that ended without success.
type Attempt = protocol.Attempt

// Holder names the holder of the leases: 1 to 128 bytes of UTF-8 without control characters. It distinguishes
// workers, and proves nothing. Peeks have none.
func Holder(name string) PopOption { return func(r *popRequest) { r.Holder = name } }

// defaultHolder is the holder of a consumer that names none.
var defaultHolder = func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	const most = 100
	return fmt.Sprintf("%s-%d", strings.ToValidUTF8(host[:min(len(host), most)], ""), os.Getpid())
}()

// NackOptions configure [Item.NackWith].
type NackOptions struct {
	// Delay is the time until the item is ready again; nil: the delay of the queue's backoff, none without one.
	Delay *time.Duration

	// Reason says why, for the record of the attempt. Up to 1 KiB of it are sent.
	Reason string
}

// NackWith is Nack with a delay, or a reason.
func (i *Item) NackWith(ctx context.Context, o NackOptions) error {
	return i.once(func() error {
		return i.nack(ctx, o)
	})
}

func (i *Item) nack(ctx context.Context, o NackOptions) error {
	if !i.Leased() {
		return ErrNotLeased
	}
	body, err := nackWord(o)
	if err != nil {
		return err
	}
	return i.settleAs(ctx, "nack", body)
}

func nackWord(o NackOptions) (string, error) {
	word := protocol.Nack{Reason: strings.ToValidUTF8(fitReason(o.Reason), "")}
	if o.Delay != nil {
		word.Delay = new(o.Delay.Nanoseconds())
	}
	if word == (protocol.Nack{}) {
		return protocol.SettleNack, nil
	}
	text, err := json.Marshal(word)
	return protocol.SettleNack + " " + string(text), err
}

// fitReason returns the part of a reason for which a settlement has room.
func fitReason(reason string) string {
	return reason[:min(len(reason), protocol.MaxNackReason)]
}

// RevokeOptions configure [Queue.Revoke].
type RevokeOptions struct {
	// Fence is the fence of the lease, as [Queue.Get] shows it. 0: of any lease. A request without a fence is not
	// repeated, because it might hit the next holder.
	Fence uint64

	// Delay is the time until the item is ready again; nil: as the queue's backoff says.
	Delay *time.Duration

	// Reason says why, for the record of the attempt.
	Reason string
}

// Revoke takes the lease of an item away. Its holder has lost it for good. It fails with
// [ErrNotLeased] if the item has no lease, and with [ErrLeaseLost] if the lease with the
// fence has ended.
func (q *Queue) Revoke(ctx context.Context, id string, o RevokeOptions) error {
	subject, err := q.subject(subjects.Subject{Verb: subjects.Revoke, ID: id})
	if err != nil {
		return err
	}
	request := protocol.RevokeRequest{Fence: int64(o.Fence), Reason: o.Reason}
	if o.Delay != nil {
		request.Delay = new(protocol.Duration(*o.Delay))
	}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r := &call{op: "revoke", queue: q.name, subject: subject, body: body, repeatable: o.Fence > 0}
	_, err = q.client.do(ctx, r)
	if errors.Is(err, ErrLeaseLost) && r.open() {
		return nil // the lease has ended, perhaps by an earlier attempt without an answer
	}
	return err
}

// GetOption is an option of [Queue.Get].
type GetOption func(*protocol.GetRequest)

// WithAttempts makes Get return the attempts of the item, and not only the number of the last one.
func WithAttempts() GetOption { return func(r *protocol.GetRequest) { r.Attempts = true } }

// WithExplanation makes Get say why the item is not handed out.
func WithExplanation() GetOption { return func(r *protocol.GetRequest) { r.Explain = true } }

// readExplanation reads the header of an item.
func (i *Item) readExplanation(values []string) error {
	i.Explain = new(Explain)
	err := json.Unmarshal([]byte(strings.Join(values, "")), i.Explain)
	if err != nil {
		err = fmt.Errorf("header %s: %w", protocol.HeaderExplain, err)
	}
	return err
}

// readAttempts reads the header of an item: a number, or the attempts.
func (i *Item) readAttempts(values []string) error {
	if len(values) != 1 || !strings.HasPrefix(values[0], "[") {
		return readHeader(protocol.HeaderAttempts, values, &i.Attempts)
	}
	var all []Attempt
	if err := json.Unmarshal([]byte(values[0]), &all); err != nil {
		return fmt.Errorf("header %s: %w", protocol.HeaderAttempts, err)
	}
	if i.LastAttempts = all; len(all) > 0 {
		i.Attempts = all[len(all)-1].N
	}
	return nil
}
