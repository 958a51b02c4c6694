package cases

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Go is nats.go.
type Go struct {
	NC   *nats.Conn
	item *nats.Msg // the last one with a reply subject
}

// End implements Driver.
func (d *Go) End(*testing.T) {}

// Do implements Driver.
func (d *Go) Do(t *testing.T, step Step, timeout time.Duration) (answers []Answer) {
	t.Helper()
	m := &nats.Msg{Subject: step.Subject, Header: step.Headers, Data: []byte(step.Body)}
	answers, err := d.perform(m, step.Do, timeout)
	if err != nil {
		answers = append(answers, goError(err))
	}
	return answers
}

func (d *Go) perform(m *nats.Msg, what string, timeout time.Duration) ([]Answer, error) {
	switch what {
	case "publish":
		return d.publish(m, timeout)
	case "request":
		reply, err := d.NC.RequestMsg(m, timeout)
		if err != nil {
			return nil, err
		}
		return []Answer{d.shown(reply)}, nil
	case "many":
		return d.many(m, timeout)
	case "send":
		return nil, d.NC.PublishMsg(m)
	case "respond":
		return nil, d.item.Respond(m.Data)
	case "ack":
		return nil, d.item.Ack()
	case "ack sync":
		return nil, d.item.AckSync(nats.AckWait(timeout))
	case "nak":
		return nil, d.item.Nak()
	case "term":
		return nil, d.item.Term()
	case "in progress":
		return nil, d.item.InProgress()
	}
	return nil, errors.New("the driver does not know " + what)
}

func (d *Go) publish(m *nats.Msg, timeout time.Duration) ([]Answer, error) {
	js, err := jetstream.New(d.NC)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ack, err := js.PublishMsg(ctx, m)
	if err != nil {
		return nil, err
	}
	return []Answer{{Stored: &Stored{Stream: ack.Stream, Seq: ack.Sequence, Duplicate: ack.Duplicate}}}, nil
}

// many reads up to the first message that is no item.
func (d *Go) many(m *nats.Msg, timeout time.Duration) (answers []Answer, err error) {
	m.Reply = d.NC.NewInbox()
	// Not SubscribeSync: NextMsg turns every Status 503 into an error without headers.
	came := make(chan *nats.Msg, 16)
	sub, err := d.NC.ChanSubscribe(m.Reply, came)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	if err := d.NC.PublishMsg(m); err != nil {
		return nil, err
	}
	late := time.After(timeout)
	for {
		select {
		case answer := <-came:
			answers = append(answers, d.shown(answer))
			if answer.Header.Get("Status") != "" {
				return answers, nil
			}
		case <-late:
			return answers, nats.ErrTimeout
		}
	}
}

func (d *Go) shown(m *nats.Msg) Answer {
	if m.Reply != "" {
		d.item = m
	}
	return Answer{Body: string(m.Data), Reply: m.Reply, Headers: m.Header}
}

func goError(err error) Answer {
	a := Answer{Error: "other", Text: err.Error()}
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused):
		a.Error, a.Code, a.ErrCode = "refused", refused.Code, int(refused.ErrorCode)
	case errors.Is(err, nats.ErrNoResponders):
		a.Error = "no responders"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		a.Error = "timeout"
	}
	return a
}
