package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// natsClient is what the clients of systems on NATS have in common: nats.go,
// as their users have it.
type natsClient struct {
	nc *nats.Conn
}

// answerLimit is how long a client waits for an answer before it fails.
const answerLimit = time.Minute

func connectNATS(addr string) (natsClient, error) {
	nc, err := nats.Connect("nats://"+addr, nats.NoReconnect(), nats.Timeout(10*time.Second))
	return natsClient{nc}, err
}

func (c *natsClient) ask(m *nats.Msg) (*nats.Msg, error) {
	return c.nc.RequestMsg(m, answerLimit)
}

func (c *natsClient) settle() error { return c.nc.FlushTimeout(answerLimit) }

func (c *natsClient) close() error {
	c.nc.Close()
	return nil
}

// natsWindow is how many answers a filling client waits for at a time.
const natsWindow = 500

// publish sends messages and waits until all of them were answered well.
func (c *natsClient) publish(n int, message func() *nats.Msg, check func(*nats.Msg) error) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	answer := func() error {
		m, err := sub.NextMsg(answerLimit)
		if err != nil {
			return err
		}
		return check(m)
	}
	for i := range n {
		m := message()
		m.Reply = inbox
		if err := c.nc.PublishMsg(m); err != nil {
			return err
		}
		if i >= natsWindow {
			if err := answer(); err != nil {
				return err
			}
		}
	}
	for range min(n, natsWindow) {
		if err := answer(); err != nil {
			return err
		}
	}
	return sub.Unsubscribe()
}

// echoSubject is where the echo service answers. It is none of pqd's.
const (
	echoSubject = "echo"
	echoCount   = "echo.count"
)

// echoClient is a client of the echo service: the least that any service on
// this NATS server can cost.
type echoClient struct{ natsClient }

func connectEcho(addr string) (client, error) {
	c, err := connectNATS(addr)
	return &echoClient{c}, err
}

func (c *echoClient) push(_ int, payload []byte) error { return c.echo(payload) }

// echo asks the echo service, if there is one on the server.
func (c *natsClient) echo(payload []byte) error {
	m, err := c.ask(&nats.Msg{Subject: echoSubject, Data: payload})
	if err == nil && len(m.Data) != len(payload) {
		err = fmt.Errorf("the echo has %d bytes, expected %d", len(m.Data), len(payload))
	}
	return err
}

func (c *echoClient) pop() error                { return errNoSuchVerb }
func (c *echoClient) lease() error              { return errNoSuchVerb }
func (c *echoClient) leave() error              { return errNoSuchVerb }
func (c *echoClient) fill(int, *payloads) error { return errNoSuchVerb }
func (c *echoClient) drain(int) error           { return errNoSuchVerb }

// echoAllocations asks the service how many heap objects it has made.
func echoAllocations(addr string) (float64, error) {
	c, err := connectNATS(addr)
	if err != nil {
		return 0, err
	}
	defer c.nc.Close()
	m, err := c.ask(&nats.Msg{Subject: echoCount})
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(m.Data), 64)
}

// startEcho runs the service on the NATS server of the daemon below.
func startEcho(_ context.Context, at *site, s *server) error {
	s.addr = s.under.addr
	p, err := launch(s.name, s.dir, command{path: at.self, args: []string{"echo", s.addr}})
	if err != nil {
		return err
	}
	s.processes = []*process{p}
	return nil
}

// echoMain is the echo service.
func echoMain(ctx context.Context, addr string) error {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	failed := make(chan error, 1)
	respond := func(m *nats.Msg, data []byte) {
		if err := m.Respond(data); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			select {
			case failed <- err:
			default:
			}
		}
	}
	if _, err = nc.QueueSubscribe(echoSubject, "echo", func(m *nats.Msg) { respond(m, m.Data) }); err != nil {
		return err
	}
	_, err = nc.Subscribe(echoCount, func(m *nats.Msg) {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		respond(m, strconv.AppendUint(nil, stats.Mallocs, 10))
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
