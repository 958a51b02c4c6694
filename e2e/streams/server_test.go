package streams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// The tests of this file have no pqd. They show what sources rely on of nats-server, so that a version that
// behaves otherwise is noticed before it is shipped.

// durable is the pull consumer of a source that takes.
type durable struct {
	*testing.T
	nc               *nats.Conn
	js               jetstream.JetStream
	stream, consumer string
}

func take(t *testing.T, nc *nats.Conn, config jetstream.StreamConfig, filters ...string) *durable {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	testenv.AwaitAnswer(t, "the stream is made", func(ctx context.Context) bool {
		_, err = js.CreateStream(ctx, config)
		return err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse)
	})
	d := &durable{t, nc, js, config.Name, "taker"}
	testenv.AwaitAnswer(t, "the consumer is made", func(ctx context.Context) bool {
		_, err = js.CreateConsumer(ctx, config.Name, jetstream.ConsumerConfig{
			Durable: d.consumer, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 100,
			AckWait: 10 * time.Minute, FilterSubjects: filters,
		})
		return err == nil
	})
	return d
}

func (d *durable) publish(n int, subject func(i int) string) {
	d.Helper()
	for i := range n {
		testenv.AwaitAnswer(d, "the stream has the message", func(ctx context.Context) bool {
			_, err := d.js.Publish(ctx, subject(i), []byte(strconv.Itoa(i)), jetstream.WithMsgID(strconv.Itoa(i)))
			return err == nil
		})
	}
}

// fetched is one message that a pull request has brought.
type fetched struct {
	*nats.Msg
	stream, consumer uint64
}

// fetch asks for messages with a new inbox and returns those that come before a status.
func (d *durable) fetch(n int) (got []fetched) {
	d.Helper()
	inbox := d.nc.NewInbox()
	sub, err := d.nc.SubscribeSync(inbox)
	if err != nil {
		d.Fatal(err)
	}
	defer sub.Unsubscribe()
	const expires = 3 * time.Second
	request := fmt.Sprintf(`{"batch":%d,"expires":%d}`, n, expires)
	if err := d.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+d.stream+"."+d.consumer, inbox, []byte(request)); err != nil {
		d.Fatal(err)
	}
	for len(got) < n {
		msg, err := sub.NextMsg(10 * expires)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) {
			return got // there is no leader, or one that stepped down with the request
		}
		if err != nil {
			d.Fatal(err)
		}
		if msg.Header.Get("Status") != "" {
			return got
		}
		meta, err := msg.Metadata()
		if err != nil {
			d.Fatal(err)
		}
		got = append(got, fetched{msg, meta.Sequence.Stream, meta.Sequence.Consumer})
	}
	return got
}

func (d *durable) ack(msgs ...fetched) {
	d.Helper()
	for _, m := range msgs {
		if err := m.Respond([]byte("+ACK")); err != nil {
			d.Fatal(err)
		}
	}
	if err := d.nc.Flush(); err != nil {
		d.Fatal(err)
	}
}

func (d *durable) ackSync(m fetched) {
	d.Helper()
	if _, err := d.nc.Request(m.Reply, []byte("+ACK"), testenv.Patience()); err != nil {
		d.Fatal(err)
	}
}

// reset resets the consumer to its ack floor. It repeats the request while there is no leader.
func (d *durable) reset() {
	d.Helper()
	testenv.AwaitAnswer(d, "the consumer is reset", func(ctx context.Context) bool {
		msg := nats.NewMsg("$JS.API.CONSUMER.RESET." + d.stream + "." + d.consumer)
		msg.Header.Set("Nats-Required-Api-Level", "4")
		reply, err := d.nc.RequestMsgWithContext(ctx, msg)
		if err != nil {
			return false
		}
		var answer struct {
			Type  string          `json:"type"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Type != "io.nats.jetstream.api.v1.consumer_reset_response" {
			d.Fatalf("reset answered %s", reply.Data)
		}
		return answer.Error == nil
	})
}

func (d *durable) info() *jetstream.ConsumerInfo {
	d.Helper()
	var info *jetstream.ConsumerInfo
	testenv.AwaitAnswer(d, "the consumer tells how it is", func(ctx context.Context) bool {
		consumer, err := d.js.Consumer(ctx, d.stream, d.consumer)
		if err != nil {
			return false
		}
		info = consumer.CachedInfo()
		return true
	})
	return info
}

func (d *durable) floor(seq uint64) {
	d.Helper()
	testenv.Await(d, fmt.Sprintf("the ack floor is %d", seq), func() bool { return d.info().AckFloor.Stream == seq })
}

// inOrder checks that messages have the wanted sequences and delivery numbers from 1.
func (d *durable) inOrder(got []fetched, want []uint64) {
	d.Helper()
	var seqs []uint64
	for i, m := range got {
		seqs = append(seqs, m.stream)
		if m.consumer != uint64(i+1) {
			d.Errorf("message %d has the delivery number %d: expected %d", i, m.consumer, i+1)
		}
	}
	if !slices.Equal(seqs, want) {
		d.Fatalf("got the sequences %v: expected %v", seqs, want)
	}
}

// risesFrom checks that messages have delivery numbers from 1 and all sequences from the first one on; one that was acknowledged may be missing.
func (d *durable) risesFrom(got []fetched, first, acknowledged uint64) {
	d.Helper()
	for i, m := range got {
		if first == acknowledged && m.stream != acknowledged {
			first++
		}
		if m.stream != first || m.consumer != uint64(i+1) {
			d.Fatalf("message %d has the sequence %d and the number %d: expected %d and %d", i, m.stream, m.consumer, first, i+1)
		}
		first++
	}
	if len(got) == 0 {
		d.Fatal("nothing came")
	}
}

func sequences(from, to uint64, without ...uint64) (all []uint64) {
	for seq := from; seq <= to; seq++ {
		if !slices.Contains(without, seq) {
			all = append(all, seq)
		}
	}
	return all
}

func workQueue(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs.>"}, Retention: jetstream.WorkQueuePolicy, Replicas: replicas}
}

func one(int) string { return "jobs.a" }

// What was delivered comes again in order after a reset, without what was acknowledged.
func TestServerResetsInOrder(t *testing.T) {
	t.Parallel()
	server := jetStream(t)
	d := take(t, server.Connect(t), workQueue(1))
	d.publish(200, one)
	got := d.fetch(60)
	d.inOrder(got, sequences(1, 60))
	d.ack(slices.Concat(got[:10], got[19:20], got[29:30])...)
	d.floor(10)
	d.reset()
	got = d.fetch(50)
	d.inOrder(got, sequences(11, 62, 20, 30))
}

// That holds when the consumer's leader changes before the reset, and after it. Only what was acknowledged above the floor may come again.
func TestServerResetsInOrderAfterANewLeader(t *testing.T) {
	t.Parallel()
	cluster := testenv.NewCluster(t)
	nc := connect(t, cluster.URL())
	d := take(t, nc, workQueue(3))
	d.publish(200, one)
	got := d.fetch(60)
	d.ack(got[:10]...)
	d.ackSync(got[19])
	d.floor(10)
	cluster.Kill(t, cluster.StreamLeader(t, "JOBS"))
	cluster.AwaitLeader(t)
	d.reset()
	got = nil
	testenv.Await(t, "the new leader delivers", func() bool { got = d.fetch(50); return len(got) > 0 })
	d.risesFrom(got, 11, 20)
	d.reset()
	testenv.Await(t, "the leader of the consumer steps down", func() bool {
		reply, err := nc.Request("$JS.API.CONSUMER.LEADER.STEPDOWN.JOBS.taker", nil, testenv.Attempt())
		return err == nil && strings.Contains(string(reply.Data), `"success":true`)
	})
	got = nil
	testenv.Await(t, "the next leader delivers", func() bool { got = d.fetch(50); return len(got) > 0 })
	d.risesFrom(got, 11, 20)
}

// An acknowledgement of what was delivered before a reset, which comes after it, takes the message that it names and no other one.
func TestServerTakesALateAcknowledgementForItsMessageAlone(t *testing.T) {
	t.Parallel()
	server := jetStream(t)
	d := take(t, server.Connect(t), workQueue(1))
	d.publish(100, one)
	late := d.fetch(40)
	d.ackSync(late[0])
	d.reset()
	got := d.fetch(20)
	d.inOrder(got, sequences(2, 21))
	d.ackSync(late[9])
	d.reset()
	got = d.fetch(20)
	d.inOrder(got, sequences(2, 22, 10))
}

// A stream has the time of its creation as long as it lives, and another one when it was deleted and made again.
func TestServerNamesAStreamByItsCreation(t *testing.T) {
	t.Parallel()
	server := jetStream(t)
	d := take(t, server.Connect(t), workQueue(1))
	created := func() (at time.Time) {
		testenv.AwaitAnswer(t, "the stream is there", func(ctx context.Context) bool {
			s, err := d.js.Stream(ctx, "JOBS")
			if err == nil {
				at = s.CachedInfo().Created
			}
			return err == nil
		})
		return at
	}
	was := created()
	server.Restart(t)
	if at := created(); !at.Equal(was) {
		t.Errorf("a stream made at %s was made at %s after a restart", was, at)
	}
	if err := d.js.DeleteStream(t.Context(), "JOBS"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.js.CreateStream(t.Context(), workQueue(1)); err != nil {
		t.Fatal(err)
	}
	if created().Equal(was) {
		t.Errorf("a new stream was made at %s, too", was)
	}
}

// A leader that was cut off describes its stream for as long as one asks, but does not read it for so long that a stop would be believed.
func TestServerReadsNoMessageWithoutAQuorum(t *testing.T) {
	nightly.Only(t, "it judges the NATS server")
	t.Parallel()
	cluster := testenv.NewCluster(t)
	config := workQueue(3)
	config.Retention = jetstream.LimitsPolicy
	d := take(t, connect(t, cluster.URL()), config)
	d.publish(5, one)
	leader := cluster.StreamLeader(t, "JOBS")
	nc := cluster.Servers[leader].Connect(t)
	cluster.Isolate(leader)
	begin := time.Now()
	testenv.Await(t, "the leader reads no message", func() bool {
		reply, err := nc.Request("$JS.API.STREAM.MSG.GET.JOBS", []byte(`{"seq":5}`), time.Second)
		return err != nil || strings.Contains(string(reply.Data), `"code":503`)
	})
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("it read for %s: stops of sources wait for 30s", took)
	}
}
