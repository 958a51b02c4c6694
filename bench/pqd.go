package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// pqdClient speaks the wire protocol as any NATS client can, without the client
// package.
type pqdClient struct {
	natsClient
	held string // the ack subject of the item that next has leased; "": there is none
}

func connectPQD(addr string) (client, error) {
	c, err := connectNATS(addr)
	return &pqdClient{natsClient: c}, err
}

const popSubject = "pq.jobs.pop.min"

var (
	pushSubjects = func() (subjects [priorities]string) {
		for i := range subjects {
			subjects[i] = fmt.Sprintf("pq.jobs.push.%d", i)
		}
		return subjects
	}()
	leaseHeader = nats.Header{"PQ-Lease": {"1m"}}
)

func (c *pqdClient) push(priority int, payload []byte) error {
	return c.pushAt(pushSubjects[priority], payload)
}

func (c *pqdClient) pushAt(subject string, payload []byte) error {
	m, err := c.ask(&nats.Msg{Subject: subject, Data: payload})
	if err != nil {
		return err
	}
	return pushed(m)
}

// pushed tells an acknowledgement, which is bare JSON, from an error.
func pushed(m *nats.Msg) error {
	if m.Header != nil || len(m.Data) == 0 {
		return fmt.Errorf("push refused: %v %s", m.Header, m.Data)
	}
	return nil
}

func (c *pqdClient) take(subject string, header nats.Header) (*nats.Msg, error) {
	m, err := c.ask(&nats.Msg{Subject: subject, Header: header})
	if err == nil {
		err = isItem(m)
	}
	return m, err
}

func isItem(m *nats.Msg) error {
	if len(m.Data) == payloadSize {
		return nil
	}
	if m.Header.Get("Status") == "404" {
		return errEmpty
	}
	return fmt.Errorf("pop refused: %v %s", m.Header, m.Data)
}

func (c *pqdClient) pop() error {
	_, err := c.take(popSubject, nil)
	return err
}

func (c *pqdClient) lease() error { return c.leaseAt(popSubject) }

func (c *pqdClient) leaseAt(subject string) error {
	item, err := c.take(subject, leaseHeader)
	if err != nil {
		return err
	}
	answer, err := c.ask(&nats.Msg{Subject: item.Reply})
	if err == nil && answer.Header != nil {
		err = fmt.Errorf("acknowledgement refused: %v", answer.Header)
	}
	return err
}

func (c *pqdClient) leave() error {
	item, err := c.take(popSubject, leaseHeader)
	if err != nil {
		return err
	}
	return c.nc.Publish(item.Reply, nil)
}

// next leases an item, or acknowledges the one before and leases the next one in one request.
func (c *pqdClient) next() error {
	ask := &nats.Msg{Subject: c.held, Data: []byte("+NXT"), Header: leaseHeader}
	if c.held == "" {
		ask = &nats.Msg{Subject: popSubject, Header: leaseHeader}
	}
	item, err := c.ask(ask)
	if err == nil {
		err = isItem(item)
	}
	if err == nil {
		c.held = item.Reply
	}
	return err
}

func (c *pqdClient) fill(n int, items *payloads) error {
	return c.publish(n, func() *nats.Msg {
		payload := items.next()
		return &nats.Msg{Subject: pushSubjects[items.priority()], Data: payload}
	}, pushed)
}

// pqdBatch is the largest that pqd gives.
const pqdBatch = 1000

func (c *pqdClient) drain(n int) error {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	for n > 0 {
		if err := c.nc.PublishRequest(popSubject, inbox, strconv.AppendInt(nil, int64(min(n, pqdBatch)), 10)); err != nil {
			return err
		}
		for {
			m, err := sub.NextMsg(answerLimit)
			if err != nil {
				return err
			}
			if m.Header.Get("Status") == "204" {
				break
			}
			if err := isItem(m); err != nil {
				return err
			}
			n--
		}
	}
	return sub.Unsubscribe()
}

var (
	manyHeader      = nats.Header{"PQ-Bundle": {strconv.Itoa(many)}}
	leaseManyHeader = nats.Header{"PQ-Bundle": {strconv.Itoa(many)}, "PQ-Lease": {"1m"}}
)

// pushMany pushes items in one message. Each has the headers of its priority.
func (c *pqdClient) pushMany(n int, items *payloads) error {
	var body []byte
	for range n {
		payload := items.next()
		body = fmt.Appendf(body, "15 %d\nPQ-Priority: %d\n", len(payload), items.priority())
		body = append(append(body, payload...), '\n')
	}
	m, err := c.ask(&nats.Msg{Subject: "pq.jobs.push", Header: nats.Header{"PQ-Bundle": {strconv.Itoa(n)}}, Data: body})
	if err != nil {
		return err
	}
	return pushed(m)
}

// takeMany pops items in one message, and calls a function with the headers of each.
func (c *pqdClient) takeMany(n int, header nats.Header, each func(headers []byte)) error {
	m, err := c.ask(&nats.Msg{Subject: popSubject, Header: header})
	if err != nil {
		return err
	}
	for rest := m.Data; len(rest) > 0; n-- {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		first, second, _ := bytes.Cut(line, []byte{' '})
		headers, err := strconv.Atoi(string(first))
		if err != nil {
			return fmt.Errorf("pop refused: %v %s", m.Header, m.Data)
		}
		if payload, err := strconv.Atoi(string(second)); err != nil || payload != payloadSize {
			return fmt.Errorf("an item of %s bytes", second)
		}
		each(after[:headers])
		rest = after[headers+payloadSize+1:]
	}
	if n > 0 {
		return errShort
	}
	return nil
}

func (c *pqdClient) popMany(n int) error {
	return c.takeMany(n, manyHeader, func([]byte) {})
}

var ackLine = []byte("PQ-Ack: ")

func (c *pqdClient) leaseMany(n int) error {
	var body []byte
	err := c.takeMany(n, leaseManyHeader, func(headers []byte) {
		_, rest, _ := bytes.Cut(headers, ackLine)
		ack, _, _ := bytes.Cut(rest, []byte{'\r'})
		body = append(append(body, ack...), '\n')
	})
	if err != nil {
		return err
	}
	answer, err := c.ask(&nats.Msg{Subject: "pq.jobs.ack.bundle.settle", Header: manyHeader, Data: body})
	if err == nil && bytes.Count(answer.Data, []byte("+OK")) != n {
		err = fmt.Errorf("acknowledgements refused: %v %s", answer.Header, answer.Data)
	}
	return err
}

// startPQD returns how to start the daemon with more environment.
func startPQD(env ...string) func(context.Context, *site, *server) error {
	return func(_ context.Context, at *site, s *server) error {
		var err error
		if s.addr, err = freeAddr(); err != nil {
			return err
		}
		if s.pages, err = freeAddr(); err != nil {
			return err
		}
		p, err := launch(s.name, s.dir, command{path: at.pqd, env: slices.Concat(env, []string{
			"PQ_STORE=local:" + s.dir, "PQ_LISTEN=" + s.addr, "PQ_HTTP=" + s.pages,
		})})
		if err != nil {
			return err
		}
		s.processes = []*process{p}
		return nil
	}
}

// allocations is how many heap objects the daemon has made since its start.
func (s *server) allocations(ctx context.Context) (float64, error) {
	return s.counter(ctx, "go_memstats_mallocs_total")
}

// commits is how many transactions the daemon has committed since its start.
func (s *server) commits(ctx context.Context) (float64, error) {
	return s.counter(ctx, "pq_store_commits_total")
}

// counter is a number of the daemon's metrics.
func (s *server) counter(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.pages+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	return scrape(request, name)
}

// scrape reads one number of a page of metrics.
func scrape(request *http.Request, name string) (float64, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, is := strings.CutPrefix(lines.Text(), name+" "); is {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("%s: expected a metric %s", request.URL, name)
}
