package bridge

import (
	"encoding/json"
	"log/slog"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// responder answers requests and ends them: they are counted, traced, and not in
// flight any more.
type responder struct {
	nc     *nats.Conn
	log    *slog.Logger
	tracer *tracer // nil: no spans
	stats  *statistics
	gate   *gate
	events *announcer
}

// done ends a request that was answered; f is nil when it was served.
func (re *responder) done(r *request, f *failure.Failure) {
	re.stats.count(r, f)
	if re.tracer != nil {
		re.tracer.traced(r, f)
	}
	re.gate.leave(r)
	r.work.end()
}

// refuse answers a request with a failure and ends it.
func (re *responder) refuse(r *request, f *failure.Failure) {
	if r.refusal == asPublish && r.msg.Reply == "" {
		re.events.lost(r.subject.Queue, f)
	}
	re.answerFailure(r, f)
	re.done(r, f)
}

// refuseAll answers requests that failed together.
func refuseAll[W work](re *responder, requests []W, err error) {
	f := failure.Explain(err)
	for _, w := range requests {
		re.refuse(w.head(), f)
	}
}

// answerFailure answers a request that was not served.
func (re *responder) answerFailure(r *request, f *failure.Failure) {
	if r.msg.Reply == "" {
		return
	}
	header := nats.Header{
		micro.ErrorHeader:     {failure.HeaderText(f.Text)},
		micro.ErrorCodeHeader: {strconv.Itoa(f.Code)},
	}
	if f.Reason != "" {
		header[protocol.HeaderReason] = []string{string(f.Reason)}
	}
	status := f.Code
	var body []byte
	switch {
	case r.refusal == asSettlement:
		status = 503 // AckSync notices nothing else
	case f.Code == 504:
		status = 0 // with a status, a client would take the request for failed
	case r.refusal == asPublish && f.Code != 503:
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
	re.publish(&nats.Msg{Subject: r.msg.Reply, Header: header, Data: body})
}

// errorBody is a failure as JetStream answers errors.
func errorBody(responseType string, f *failure.Failure) []byte {
	body, err := json.Marshal(protocol.NewErrorResponse(responseType, f.Code, f.Text))
	if err != nil {
		return nil // numbers and strings always marshal
	}
	return body
}

// publish sends an answer and says whether it was sent. Without an answer, the client
// asks again after its time-out.
func (re *responder) publish(m *nats.Msg) bool {
	err := re.nc.PublishMsg(m)
	if err != nil {
		re.log.Debug("answer lost", "subject", m.Subject, "error", err)
	}
	return err == nil
}

// answerBody answers a request with a body.
func (re *responder) answerBody(r *request, body []byte) {
	if r.msg.Reply != "" {
		if err := re.nc.Publish(r.msg.Reply, body); err != nil {
			re.refuse(r, failure.Newf(413, "the answer has %d bytes and cannot be sent: %s", len(body), err))
			return
		}
	}
	re.done(r, nil)
}
