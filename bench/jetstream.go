package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jsClient uses a work-queue stream. There is no priority in it: the subjects
// carry one, and the consumer takes them in the order they came, which is the
// cheapest that JetStream can do.
type jsClient struct{ natsClient }

const (
	jsStream   = "JOBS"
	jsConsumer = "workers"
	jsNext     = "$JS.API.CONSUMER.MSG.NEXT." + jsStream + "." + jsConsumer
)

var (
	jsSubjects = func() (subjects [priorities]string) {
		for i := range subjects {
			subjects[i] = fmt.Sprintf("jobs.%d", i)
		}
		return subjects
	}()
	jsOne = []byte(`{"batch":1,"no_wait":true}`)
	jsAck = []byte("+ACK")
)

func connectJS(addr string) (client, error) {
	c, err := connectNATS(addr)
	return &jsClient{c}, err
}

// prepareJS returns how to make the stream and its consumer, with so many replicas.
func prepareJS(replicas int) func(addr string) error {
	return func(addr string) error { return makeJS(addr, replicas) }
}

func makeJS(addr string, replicas int) error {
	c, err := connectNATS(addr)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	js, err := jetstream.New(c.nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: jsStream, Subjects: []string{"jobs.*"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: replicas,
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: jsConsumer, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100_000, AckWait: time.Minute,
	})
	return err
}

func (c *jsClient) push(priority int, payload []byte) error {
	m, err := c.ask(&nats.Msg{Subject: jsSubjects[priority], Data: payload})
	if err != nil {
		return err
	}
	return stored(m)
}

func stored(m *nats.Msg) error {
	const ack = `{"stream":`
	if len(m.Data) < len(ack) || string(m.Data[:len(ack)]) != ack {
		return fmt.Errorf("publish refused: %v %s", m.Header, m.Data)
	}
	return nil
}

func (c *jsClient) fetch() (*nats.Msg, error) {
	m, err := c.ask(&nats.Msg{Subject: jsNext, Data: jsOne})
	if err == nil {
		err = isFetched(m)
	}
	return m, err
}

func isFetched(m *nats.Msg) error {
	if len(m.Data) == payloadSize {
		return nil
	}
	if m.Header.Get("Status") == "404" {
		return errEmpty
	}
	return fmt.Errorf("fetch refused: %v %s", m.Header, m.Data)
}

// pop is a fetch and an acknowledgement: a work queue gives nothing for good
// without one.
func (c *jsClient) pop() error {
	m, err := c.fetch()
	if err != nil {
		return err
	}
	return c.nc.Publish(m.Reply, jsAck)
}

func (c *jsClient) leave() error { return c.pop() }

func (c *jsClient) lease() error {
	m, err := c.fetch()
	if err != nil {
		return err
	}
	_, err = c.ask(&nats.Msg{Subject: m.Reply, Data: jsAck})
	return err
}

func (c *jsClient) fill(n int, items *payloads) error {
	return c.publish(n, func() *nats.Msg {
		payload := items.next()
		return &nats.Msg{Subject: jsSubjects[items.priority()], Data: payload}
	}, stored)
}

func (c *jsClient) drain(n int) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	const batch = 500
	for n > 0 {
		want := min(n, batch)
		if err := c.nc.PublishRequest(jsNext, inbox, fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, want)); err != nil {
			return err
		}
		for range want {
			m, err := sub.NextMsg(answerLimit)
			if err != nil {
				return err
			}
			if err := isFetched(m); err != nil {
				return err
			}
			if err := c.nc.Publish(m.Reply, jsAck); err != nil {
				return err
			}
		}
		n -= want
	}
	if err := c.settle(); err != nil {
		return err
	}
	return sub.Unsubscribe()
}

// leaseMany fetches items and asks for the answer to each acknowledgement.
func (c *jsClient) leaseMany(n int) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	if err := c.nc.PublishRequest(jsNext, inbox, fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, n)); err != nil {
		return err
	}
	var replies []string
	for range n {
		m, err := sub.NextMsg(answerLimit)
		if err == nil {
			err = isFetched(m)
		}
		if err != nil {
			return err
		}
		replies = append(replies, m.Reply)
	}
	for _, reply := range replies {
		if err := c.nc.PublishRequest(reply, inbox, jsAck); err != nil {
			return err
		}
	}
	for range replies {
		if _, err := sub.NextMsg(answerLimit); err != nil {
			return err
		}
	}
	return sub.Unsubscribe()
}

// fetchClient does the same by way of the client library.
type fetchClient struct {
	jsClient
	js       jetstream.JetStream
	consumer jetstream.Consumer
}

func connectJSFetch(addr string) (client, error) {
	nc, err := connectNATS(addr)
	if err != nil {
		return nil, err
	}
	c := &fetchClient{jsClient: jsClient{nc}}
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	if c.js, err = jetstream.New(nc.nc); err == nil {
		c.consumer, err = c.js.Consumer(ctx, jsStream, jsConsumer)
	}
	if err != nil {
		nc.nc.Close()
	}
	return c, err
}

func (c *fetchClient) push(priority int, payload []byte) error {
	_, err := c.js.Publish(context.Background(), jsSubjects[priority], payload)
	return err
}

func (c *fetchClient) one() (jetstream.Msg, error) {
	batch, err := c.consumer.Fetch(1)
	if err != nil {
		return nil, err
	}
	m, ok := <-batch.Messages()
	if !ok {
		return nil, cmp.Or(batch.Error(), errEmpty)
	}
	return m, nil
}

func (c *fetchClient) pop() error { return c.leave() }

func (c *fetchClient) leave() error {
	m, err := c.one()
	if err != nil {
		return err
	}
	return m.Ack()
}

func (c *fetchClient) lease() error {
	m, err := c.one()
	if err != nil {
		return err
	}
	return m.DoubleAck(context.Background())
}

// startJS returns how to start a NATS server with JetStream: the same library
// that nats-server is made of, in a process of its own.
func startJS(sync string) func(context.Context, *site, *server) error {
	return func(_ context.Context, at *site, s *server) error {
		var err error
		if s.addr, err = freeAddr(); err != nil {
			return err
		}
		p, err := launch(s.name, s.dir, command{path: at.self, args: []string{"jetstream", s.addr, s.dir, sync}})
		if err != nil {
			return err
		}
		s.processes = []*process{p}
		return nil
	}
}

// jetstreamMain is that server, or one of several.
func jetstreamMain(addr, dir, sync string, cluster ...string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	options := &natsserver.Options{Host: host, JetStream: true, StoreDir: dir, SyncAlways: sync == "always", NoSigs: true}
	if options.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	if len(cluster) > 0 {
		if err := joinCluster(options, cluster[0], cluster[1]); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	srv, err := natsserver.NewServer(options)
	if err != nil {
		return err
	}
	srv.ConfigureLogger()
	srv.Start()
	<-ctx.Done()
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}
