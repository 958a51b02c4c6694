package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitClient uses a durable priority queue, persistent messages, and
// publisher confirms.
type rabbitClient struct {
	conn       *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery // of a consumer, which the first lease starts
}

const rabbitQueue = "jobs"

func connectRabbit(addr string) (client, error) {
	conn, err := amqp.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		return nil, err
	}
	c := &rabbitClient{conn: conn}
	if c.channel, err = conn.Channel(); err == nil {
		err = c.channel.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func prepareRabbit(addr string) error {
	c, err := connectRabbit(addr)
	if err != nil {
		return err
	}
	_, err = c.(*rabbitClient).channel.QueueDeclare(rabbitQueue, true, false, false, false, amqp.Table{"x-max-priority": priorities})
	return errors.Join(err, c.close())
}

// publish sends an item. With AMQP the highest priority comes first.
func (c *rabbitClient) publish(priority int, payload []byte) (*amqp.DeferredConfirmation, error) {
	return c.channel.PublishWithDeferredConfirm("", rabbitQueue, false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, Priority: uint8(priorities - priority), Body: payload,
	})
}

func confirmed(d *amqp.DeferredConfirmation) error {
	if !d.Wait() {
		return errors.New("publish refused")
	}
	return nil
}

func (c *rabbitClient) push(priority int, payload []byte) error {
	d, err := c.publish(priority, payload)
	if err != nil {
		return err
	}
	return confirmed(d)
}

func (c *rabbitClient) pop() error {
	_, ok, err := c.channel.Get(rabbitQueue, true)
	if err == nil && !ok {
		err = errEmpty
	}
	return err
}

// lease does not exist: acknowledgements are not answered.
func (c *rabbitClient) lease() error { return errNoSuchVerb }

// leave takes what a consumer gets: one message at a time, the next one when
// this one was acknowledged.
func (c *rabbitClient) leave() error {
	if c.deliveries == nil {
		if err := c.channel.Qos(1, 0, false); err != nil {
			return err
		}
		var err error
		if c.deliveries, err = c.channel.Consume(rabbitQueue, "", false, false, false, false, nil); err != nil {
			return err
		}
	}
	d, ok := <-c.deliveries
	if !ok {
		return errors.New("the consumer has ended")
	}
	return d.Ack(false)
}

// settle makes a request that is answered: what went before it is done then.
func (c *rabbitClient) settle() error {
	if c.deliveries == nil {
		return nil
	}
	_, err := c.channel.QueueDeclarePassive(rabbitQueue, true, false, false, false, amqp.Table{"x-max-priority": priorities})
	return err
}

// rabbitBulk is how many confirmations or messages a client lets stand out.
const rabbitBulk = 1000

func (c *rabbitClient) fill(n int, items *payloads) error {
	for n > 0 {
		part := min(n, rabbitBulk)
		waiting := make([]*amqp.DeferredConfirmation, part)
		for i := range waiting {
			payload := items.next()
			var err error
			if waiting[i], err = c.publish(items.priority(), payload); err != nil {
				return err
			}
		}
		for _, d := range waiting {
			if err := confirmed(d); err != nil {
				return err
			}
		}
		n -= part
	}
	return nil
}

func (c *rabbitClient) drain(n int) error {
	channel, err := c.conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(rabbitBulk, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(rabbitQueue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for i := range n {
		d, ok := <-deliveries
		if !ok {
			return fmt.Errorf("the consumer has ended after %d of %d", i, n)
		}
		if (i+1)%(rabbitBulk/2) == 0 || i == n-1 {
			if err := d.Ack(true); err != nil {
				return err
			}
		}
	}
	return channel.Close()
}

func (c *rabbitClient) close() error {
	err := c.conn.Close()
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// rabbitScript starts the broker as the user that runs it. The program of the
// same name in the PATH insists on directories of its own.
const rabbitScript = "/usr/lib/rabbitmq/bin/rabbitmq-server"

func startRabbit(_ context.Context, _ *site, s *server) error {
	var err error
	if s.addr, err = freeAddr(); err != nil {
		return err
	}
	var ports [2]int // of Erlang's own: the port mapper and the distribution
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	mapper := []string{fmt.Sprint("ERL_EPMD_PORT=", ports[0]), "ERL_EPMD_ADDRESS=" + loopback}
	// A port mapper of its own: one that RabbitMQ starts outlives it.
	epmd, err := launch(s.name+"-epmd", s.dir, command{path: "epmd", user: "rabbitmq", env: mapper})
	if err != nil {
		return err
	}
	s.processes = []*process{epmd}
	config := s.dir + ".conf"
	text := fmt.Sprintf("listeners.tcp.1 = %s:%s\nlog.console = true\nlog.console.level = warning\nlog.file = false\n", loopback, port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	plugins := s.dir + ".plugins"
	if err := os.WriteFile(plugins, []byte("[].\n"), 0o644); err != nil {
		return err
	}
	broker, err := launch(s.name, s.dir, command{path: rabbitScript, user: "rabbitmq", env: append(mapper,
		"RABBITMQ_NODENAME="+filepath.Base(s.dir)+"@localhost", fmt.Sprint("RABBITMQ_DIST_PORT=", ports[1]),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_MNESIA_BASE="+s.dir, "RABBITMQ_LOG_BASE="+s.dir, "RABBITMQ_PID_FILE="+filepath.Join(s.dir, "pid"),
		"RABBITMQ_CONFIG_FILE="+config, "RABBITMQ_ENABLED_PLUGINS_FILE="+plugins, "RABBITMQ_CONF_ENV_FILE=/dev/null",
	)})
	if err != nil {
		return err
	}
	s.processes = append(s.processes, broker)
	return nil
}
