package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
)

// beanstalkdClient uses the default tube.
type beanstalkdClient struct {
	*wire
	id []byte // of the job that was reserved last
}

func connectBeanstalkd(addr string) (client, error) {
	w, err := dial(addr)
	return &beanstalkdClient{wire: w}, err
}

func (c *beanstalkdClient) putRequest(priority int, payload []byte) {
	c.text("put ")
	c.number(priority)
	c.text(" 0 60 ")
	c.number(len(payload))
	c.text("\r\n")
	c.bytes(payload)
	c.text("\r\n")
}

func (c *beanstalkdClient) expect(words string) ([]byte, error) {
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	rest, is := bytes.CutPrefix(line, []byte(words))
	if !is && bytes.Equal(line, []byte("TIMED_OUT")) {
		return nil, errEmpty
	}
	if !is {
		return nil, fmt.Errorf("expected %s, found %q", words, line)
	}
	return rest, nil
}

func (c *beanstalkdClient) push(priority int, payload []byte) error {
	c.putRequest(priority, payload)
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.expect("INSERTED ")
	return err
}

const reserveRequest = "reserve-with-timeout 0\r\n"

// reserved reads the answer to a reservation.
func (c *beanstalkdClient) reserved() error {
	rest, err := c.expect("RESERVED ")
	if err != nil {
		return err
	}
	id, size, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.Atoi(string(size))
	if err != nil {
		return fmt.Errorf("expected the size of a job, found %q", rest)
	}
	c.id = append(c.id[:0], id...)
	return c.skip(n)
}

func (c *beanstalkdClient) deleteRequest(id []byte) {
	c.text("delete ")
	c.bytes(id)
	c.text("\r\n")
}

// lease is the only way out of a tube.
func (c *beanstalkdClient) lease() error {
	c.text(reserveRequest)
	if err := c.send(); err != nil {
		return err
	}
	if err := c.reserved(); err != nil {
		return err
	}
	c.deleteRequest(c.id)
	if err := c.send(); err != nil {
		return err
	}
	_, err := c.expect("DELETED")
	return err
}

func (c *beanstalkdClient) pop() error    { return c.lease() }
func (c *beanstalkdClient) leave() error  { return errNoSuchVerb }
func (c *beanstalkdClient) settle() error { return nil }

// beanstalkdBulk is how many requests a client has under way at a time.
const beanstalkdBulk = 100

func (c *beanstalkdClient) fill(n int, items *payloads) error {
	for n > 0 {
		part := min(n, beanstalkdBulk)
		for range part {
			payload := items.next()
			c.putRequest(items.priority(), payload)
		}
		if err := c.send(); err != nil {
			return err
		}
		for range part {
			if _, err := c.expect("INSERTED "); err != nil {
				return err
			}
		}
		n -= part
	}
	return nil
}

func (c *beanstalkdClient) drain(n int) error {
	for n > 0 {
		part := min(n, beanstalkdBulk)
		for range part {
			c.text(reserveRequest)
		}
		if err := c.send(); err != nil {
			return err
		}
		var ids [][]byte
		for range part {
			if err := c.reserved(); err != nil {
				return err
			}
			ids = append(ids, slices.Clone(c.id))
		}
		for _, id := range ids {
			c.deleteRequest(id)
		}
		if err := c.send(); err != nil {
			return err
		}
		for range part {
			if _, err := c.expect("DELETED"); err != nil {
				return err
			}
		}
		n -= part
	}
	return nil
}

// startBeanstalkd returns how to start beanstalkd with a binlog.
func startBeanstalkd(flags ...string) func(context.Context, *site, *server) error {
	return func(_ context.Context, _ *site, s *server) error {
		var err error
		if s.addr, err = freeAddr(); err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		p, err := launch(s.name, s.dir, command{path: s.system.program, user: "beanstalkd",
			args: append([]string{"-l", loopback, "-p", port, "-b", s.dir}, flags...)})
		if err != nil {
			return err
		}
		s.processes = []*process{p}
		return nil
	}
}
