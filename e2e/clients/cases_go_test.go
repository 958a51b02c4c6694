package clients_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestCasesInGo(t *testing.T) {
	t.Parallel()
	runCases(t, "go", func(t *testing.T, p *testenv.Process) clientDriver {
		return &goDriver{nc: p.Connect(t)}
	})
}

// goDriver is nats.go.
type goDriver struct {
	nc   *nats.Conn
	item *nats.Msg // the last one with a reply subject
}

func (d *goDriver) end(*testing.T) {}

func (d *goDriver) do(t *testing.T, step clientStep, timeout time.Duration) (answers []shownAnswer) {
	t.Helper()
	m := &nats.Msg{Subject: step.Subject, Header: step.Headers, Data: []byte(step.Body)}
	answers, err := d.perform(m, step.Do, timeout)
	if err != nil {
		answers = append(answers, goError(err))
	}
	return answers
}

func (d *goDriver) perform(m *nats.Msg, what string, timeout time.Duration) ([]shownAnswer, error) {
	switch what {
	case "publish":
		return d.publish(m, timeout)
	case "request":
		reply, err := d.nc.RequestMsg(m, timeout)
		if err != nil {
			return nil, err
		}
		return []shownAnswer{d.shown(reply)}, nil
	case "many":
		return d.many(m, timeout)
	case "send":
		return nil, d.nc.PublishMsg(m)
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

func (d *goDriver) publish(m *nats.Msg, timeout time.Duration) ([]shownAnswer, error) {
	js, err := jetstream.New(d.nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ack, err := js.PublishMsg(ctx, m)
	if err != nil {
		return nil, err
	}
	return []shownAnswer{{Stored: &stored{Stream: ack.Stream, Seq: ack.Sequence, Duplicate: ack.Duplicate}}}, nil
}

// many reads up to the first message that is no item.
func (d *goDriver) many(m *nats.Msg, timeout time.Duration) (answers []shownAnswer, err error) {
	m.Reply = d.nc.NewInbox()
	// Not SubscribeSync: NextMsg turns every Status 503 into an error without headers.
	came := make(chan *nats.Msg, 16)
	sub, err := d.nc.ChanSubscribe(m.Reply, came)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	if err := d.nc.PublishMsg(m); err != nil {
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

func (d *goDriver) shown(m *nats.Msg) shownAnswer {
	if m.Reply != "" {
		d.item = m
	}
	return shownAnswer{Body: string(m.Data), Reply: m.Reply, Headers: m.Header}
}

func goError(err error) shownAnswer {
	a := shownAnswer{Error: "other", Text: err.Error()}
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
