package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/subjects"
)

// stream is a stream of a remote, through the JetStream API. Only its leader answers.
type stream struct {
	nc     *nats.Conn
	prefix string // of the API
	name   string
}

func newStream(nc *nats.Conn, domain, name string) *stream {
	s := &stream{nc: nc, prefix: "$JS.API.", name: name}
	if domain != "" {
		s.prefix = "$JS." + domain + ".API."
	}
	return s
}

// askTime is how long an answer may take.
const askTime = 5 * time.Second

// requiredLevel is the level of the API that has resets of consumers.
const requiredLevel = "4"

// ask asks the API, and reads the answer.
func (s *stream) ask(ctx context.Context, subject string, body, answer any) error {
	msg := nats.NewMsg(s.prefix + subject)
	if strings.HasPrefix(subject, "CONSUMER.RESET.") {
		msg.Header.Set("Nats-Required-Api-Level", requiredLevel)
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		msg.Data = text
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := s.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &failed); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if failed.Error != nil {
		return fmt.Errorf("%s: %w", subject, failed.Error)
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// isMissing reports whether the API has answered that there is no such stream, consumer or message.
func isMissing(err error) bool {
	var failed *jetstream.APIError
	return errors.As(err, &failed) && failed.Code == 404
}

func (s *stream) info(ctx context.Context) (info jetstream.StreamInfo, err error) {
	err = s.ask(ctx, "STREAM.INFO."+s.name, nil, &info)
	return info, err
}

// mark is the mark that a source would keep of a message of the stream; there says that the stream has the message.
// Unlike other questions, a leader without a quorum answers this one only for a short time.
func (s *stream) mark(ctx context.Context, seq uint64) (mark source.Mark, there bool, err error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err = s.ask(ctx, "STREAM.MSG.GET."+s.name, map[string]uint64{"seq": max(seq, 1)}, &answer)
	if isMissing(err) {
		return mark, false, nil
	}
	m := &answer.Message
	return codec.SourceMark(m.Seq, m.Time, m.Subject, m.Data), err == nil, err
}

// create makes a consumer, or changes it.
func (s *stream) create(ctx context.Context, config jetstream.ConsumerConfig, action string) (info jetstream.ConsumerInfo, err error) {
	request := struct {
		Stream string                   `json:"stream_name"`
		Config jetstream.ConsumerConfig `json:"config"`
		Action string                   `json:"action,omitempty"`
	}{s.name, config, action}
	err = s.ask(ctx, "CONSUMER.CREATE."+s.name+"."+config.Name, request, &info)
	return info, err
}

func (s *stream) consumer(ctx context.Context, name string) (info jetstream.ConsumerInfo, err error) {
	err = s.ask(ctx, "CONSUMER.INFO."+s.name+"."+name, nil, &info)
	return info, err
}

// reset makes a consumer deliver unacknowledged messages again, in order, with numbers from 1: from its floor on,
// or from a sequence if that is not 0.
func (s *stream) reset(ctx context.Context, name string, from uint64) (info jetstream.ConsumerInfo, err error) {
	var request any
	if from > 0 {
		request = map[string]uint64{"seq": from}
	}
	err = s.ask(ctx, "CONSUMER.RESET."+s.name+"."+name, request, &info)
	return info, err
}

// remove removes a consumer that nobody needs any more. It goes by itself if that fails.
func (s *stream) remove(name string) {
	_ = s.nc.Publish(s.prefix+"CONSUMER.DELETE."+s.name+"."+name, nil)
}

// delivery is a message that a consumer has delivered.
type delivery struct {
	*nats.Msg
	seq    uint64 // in the stream
	number uint64 // of the delivery
	at     time.Time
}

// readDelivery reads the reply subject of a message:
// $JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<times>.<seq>.<number>.<time>.<pending>[.<more>]
func readDelivery(m *nats.Msg) (d delivery, err error) {
	if len(m.Reply) > subjects.MaxReply {
		return d, fmt.Errorf("a message with a reply subject of %d bytes: expected one of JetStream", len(m.Reply))
	}
	tokens := strings.Split(m.Reply, ".")
	switch n := len(tokens); {
	case n == 9:
		tokens = tokens[4:]
	case n >= 11:
		tokens = tokens[6:]
	default:
		return d, fmt.Errorf("a message with the reply subject %q: expected one of JetStream", m.Reply)
	}
	d.Msg = m
	var at int64
	var errs [3]error
	d.seq, errs[0] = strconv.ParseUint(tokens[1], 10, 64)
	d.number, errs[1] = strconv.ParseUint(tokens[2], 10, 64)
	at, errs[2] = strconv.ParseInt(tokens[3], 10, 64)
	d.at = time.Unix(0, at)
	return d, errors.Join(errs[:]...)
}

// sameFilter reports whether a consumer has the filter of the source.
func sameFilter(c *jetstream.ConsumerConfig, filter []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(filterOf(c))), slices.Sorted(slices.Values(filter)))
}

func filterOf(c *jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}
