package request

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Responder answers requests and ends them: they are counted, traced, and not in
// flight any more.
type Responder struct {
	Conn   *nats.Conn
	Log    *slog.Logger
	Tracer trace.Tracer // nil: no spans
	Stats  *Statistics
	Gate   *Gate
	Lost   func(queue string, n int, f *failure.Failure) // hears of pushes without a reply subject that were not stored
}

// Done ends a request that was answered; f is nil when it was served.
func (re *Responder) Done(r *Request, f *failure.Failure) {
	r.Failure = f
	if f == nil {
		if done, details := r.Work.Act(); done {
			re.act(r, details)
		}
	}
	re.Stats.Count(r, f)
	r.Share.Owe(weigh(r.Work.Items()))
	if re.Tracer != nil {
		traced(re.Tracer, r, f)
	}
	re.Gate.Leave(r)
	r.Work.End()
}

// DoneWithin ends a bundle that was answered and whose requests have ended one by one.
func (re *Responder) DoneWithin(bundle *Request) {
	re.Gate.Leave(bundle)
	bundle.Work.End()
}

// weigh returns the number of items, and their bytes.
func weigh(items []fdbpq.Item) (n, bytes int) {
	for i := range items {
		bytes += int(items[i].Size)
	}
	return len(items), bytes
}

// Refuse answers a request with a failure and ends it.
func (re *Responder) Refuse(r *Request, f *failure.Failure) {
	if r.Refusal == AsPublish && r.Msg.Reply == "" {
		re.Lost(r.Subject.Queue, r.Count(), f)
	}
	re.AnswerFailure(r, f)
	re.Done(r, f)
}

// RefuseAll answers requests that failed together.
func RefuseAll[W Work](re *Responder, requests []W, err error) {
	f := failure.Explain(err)
	for _, w := range requests {
		re.Refuse(w.Head(), f)
	}
}

// AnswerFailure answers a request that was not served.
func (re *Responder) AnswerFailure(r *Request, f *failure.Failure) {
	if r.Msg.Reply == "" {
		return
	}
	m := r.Refusal.Answer(f)
	m.Subject = r.Msg.Reply
	re.Publish(m)
}

// Answer is the answer to a request that failed, without its subject.
func (form Refusal) Answer(f *failure.Failure) *nats.Msg {
	header := nats.Header{
		micro.ErrorHeader:     {failure.HeaderText(f.Text)},
		micro.ErrorCodeHeader: {strconv.Itoa(f.Code)},
	}
	if f.Reason != "" {
		header[protocol.HeaderReason] = []string{string(f.Reason)}
	}
	if f.Giver != "" {
		header[protocol.HeaderLinkGiver] = []string{f.Giver}
	}
	if f.Progress != "" {
		header[protocol.HeaderProgress] = []string{f.Progress}
		if !f.ProgressAt.IsZero() {
			header[protocol.HeaderProgressAt] = []string{f.ProgressAt.UTC().Format(time.RFC3339Nano)}
		}
	}
	status := f.Code
	var body []byte
	switch {
	case form == AsSettlement:
		status = 503 // AckSync notices nothing else
	case f.Code == 504:
		status = 0 // with a status, a client would take the request for failed
	case form == AsPublish && f.Code != 503:
		status = 0 // JetStream has errors in the body
		body = errorBody(protocol.PushResponseType, f)
	case f.Code == 400:
		// The misspelt subject may have been meant for a publish to a stream.
		body = errorBody(protocol.ErrorResponseType, f)
	}
	if status != 0 {
		header[protocol.HeaderStatus] = []string{strconv.Itoa(status)}
		header[protocol.HeaderDescription] = []string{f.Describe()}
	}
	return &nats.Msg{Header: header, Data: body}
}

// errorBody is a failure as JetStream answers errors.
func errorBody(responseType string, f *failure.Failure) []byte {
	response := protocol.NewErrorResponse(responseType, f.Code, f.Text)
	response.Error.Item = f.Item
	body, err := protocol.Marshal(response)
	if err != nil {
		return nil // numbers and strings always marshal
	}
	return body
}

// Publish sends an answer.
func (re *Responder) Publish(m *nats.Msg) { re.sent(re.Conn.PublishMsg(m), m.Subject) }

// sent logs an answer that was not sent. Without an answer, the client repeats the request after
// its time-out.
func (re *Responder) sent(err error, subject string) {
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, nats.ErrMaxPayload):
		re.Log.Error("an answer cannot be sent", "subject", subject, "error", err)
	default: // without a connection nobody can be answered
		re.Log.Debug("answer lost", "subject", subject, "error", err)
	}
}

// Answer sends an answer to a request, or one of several. If it cannot be sent, the client gets an error in its
// place, which Answer returns: the request has failed.
func (re *Responder) Answer(r *Request, m *nats.Msg) *failure.Failure {
	err := re.Conn.PublishMsg(m)
	if err == nil {
		return nil
	}
	re.sent(err, m.Subject)
	f := failure.Newf(500, "the answer cannot be sent: %s", err)
	re.AnswerFailure(r, f)
	return f
}

// AnswerBody answers a request with a body.
func (re *Responder) AnswerBody(r *Request, body []byte) {
	r.Share.Owe(0, len(body))
	if r.Msg.Reply != "" {
		if err := re.Conn.Publish(r.Msg.Reply, body); err != nil {
			re.sent(err, r.Msg.Reply)
			re.Refuse(r, failure.Newf(413, "the answer has %d bytes and cannot be sent: %s", len(body), err))
			return
		}
	}
	re.Done(r, nil)
}
