package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
)

// redisClient keeps the queue in a sorted set whose scores are the priorities.
type redisClient struct {
	*wire
	script string // digest of leaseScript

	manyScript string // digest of leaseManyScript
	kept       []byte // items that were read, if they are to be kept
	keeps      bool
	item       []byte // the one that was read last
}

const (
	redisQueue  = "jobs"
	redisLeased = "jobs:leased"
)

// leaseScript moves the first item to the set of the leased ones, where its
// score says when the lease ends.
const leaseScript = `local item = redis.call('ZPOPMIN', KEYS[1])
if item[1] then redis.call('ZADD', KEYS[2], ARGV[1], item[1]) end
return item`

// leaseManyScript does so with ARGV[2] items.
const leaseManyScript = `local items = redis.call('ZPOPMIN', KEYS[1], ARGV[2])
for i = 1, #items, 2 do redis.call('ZADD', KEYS[2], ARGV[1], items[i]) end
return items`

func connectRedis(addr string) (client, error) {
	w, err := dial(addr)
	if err != nil {
		return nil, err
	}
	c := &redisClient{wire: w}
	if c.script, err = c.load(leaseScript); err == nil {
		c.manyScript, err = c.load(leaseManyScript)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return c, nil
}

// load returns the digest of a script.
func (c *redisClient) load(script string) (string, error) {
	c.command("SCRIPT", "LOAD", script)
	if err := c.send(); err != nil {
		return "", err
	}
	_, err := c.answer()
	return string(c.item), err
}

// header begins a command of n parts.
func (c *redisClient) header(n int) {
	c.text("*")
	c.number(n)
	c.text("\r\n")
}

func (c *redisClient) part(b []byte) {
	c.text("$")
	c.number(len(b))
	c.text("\r\n")
	c.bytes(b)
	c.text("\r\n")
}

func (c *redisClient) command(parts ...string) {
	c.header(len(parts))
	for _, part := range parts {
		c.text("$")
		c.number(len(part))
		c.text("\r\n")
		c.text(part)
		c.text("\r\n")
	}
}

// answer reads one and returns its number, or how many parts it has. The first
// string in it becomes the item.
func (c *redisClient) answer() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) == 0 {
		return 0, fmt.Errorf("expected an answer, found an empty line")
	}
	if line[0] == '-' {
		return 0, fmt.Errorf("refused: %s", line[1:])
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return 0, fmt.Errorf("expected a number, found %q", line)
	}
	switch line[0] {
	case ':':
		return n, nil
	case '$':
		return 1, c.block(n, true)
	case '*':
		for i := range n {
			line, err := c.line()
			if err != nil {
				return 0, err
			}
			size, err := strconv.Atoi(string(bytes.TrimPrefix(line, []byte("$"))))
			if err != nil {
				return 0, fmt.Errorf("expected a string, found %q", line)
			}
			if err := c.block(size, i == 0 || c.keeps && i%2 == 0); err != nil {
				return 0, err
			}
			if c.keeps && i%2 == 0 {
				c.kept = append(c.kept, c.item...)
			}
		}
		return n, nil
	}
	return 0, fmt.Errorf("expected an integer, a string or an array, found %q", line)
}

func (c *redisClient) block(size int, keep bool) error {
	if keep && size >= 0 {
		block, err := c.in.Peek(size)
		if err != nil {
			return err
		}
		c.item = append(c.item[:0], block...)
	}
	return c.skip(size)
}

// ask sends a command and insists on the number in its answer.
func (c *redisClient) ask(expected int) error {
	if err := c.send(); err != nil {
		return err
	}
	switch n, err := c.answer(); {
	case err != nil:
		return err
	case n == 0 && expected == 2:
		return errEmpty
	case n != expected:
		return fmt.Errorf("expected the answer %d, found %d", expected, n)
	}
	return nil
}

func (c *redisClient) push(priority int, payload []byte) error {
	c.header(4)
	c.text("$4\r\nZADD\r\n$4\r\n" + redisQueue + "\r\n$1\r\n")
	c.number(priority)
	c.text("\r\n")
	c.part(payload)
	return c.ask(1)
}

func (c *redisClient) pop() error {
	c.text("*2\r\n$7\r\nZPOPMIN\r\n$4\r\n" + redisQueue + "\r\n")
	return c.ask(2)
}

func (c *redisClient) lease() error {
	c.command("EVALSHA", c.script, "2", redisQueue, redisLeased, "1")
	if err := c.ask(2); err != nil {
		return err
	}
	c.header(3)
	c.text("$4\r\nZREM\r\n$11\r\n" + redisLeased + "\r\n")
	c.part(c.item)
	return c.ask(1)
}

// leaseMany leases items with one script and acknowledges them with one command.
func (c *redisClient) leaseMany(n int) error {
	c.kept, c.keeps = c.kept[:0], true
	c.command("EVALSHA", c.manyScript, "2", redisQueue, redisLeased, "1", strconv.Itoa(n))
	err := c.ask(2 * n)
	c.keeps = false
	if err != nil {
		return err
	}
	c.header(2 + n)
	c.text("$4\r\nZREM\r\n$11\r\n" + redisLeased + "\r\n")
	for at := 0; at < len(c.kept); at += payloadSize {
		c.part(c.kept[at : at+payloadSize])
	}
	return c.ask(n)
}

func (c *redisClient) leave() error  { return errNoSuchVerb }
func (c *redisClient) settle() error { return nil }

// redisBulk is how many items a bulk command has.
const redisBulk = 1000

func (c *redisClient) fill(n int, items *payloads) error {
	for n > 0 {
		part := min(n, redisBulk)
		c.header(2 + 2*part)
		c.text("$4\r\nZADD\r\n$4\r\n" + redisQueue + "\r\n")
		for range part {
			payload := items.next()
			c.text("$1\r\n")
			c.number(items.priority())
			c.text("\r\n")
			c.part(payload)
		}
		if err := c.ask(part); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

func (c *redisClient) drain(n int) error {
	for n > 0 {
		part := min(n, redisBulk)
		c.command("ZPOPMIN", redisQueue, strconv.Itoa(part))
		if err := c.ask(2 * part); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// startRedis returns how to start Redis with an append-only file.
func startRedis(fsync string) func(context.Context, *site, *server) error {
	return func(_ context.Context, _ *site, s *server) error {
		var err error
		if s.addr, err = freeAddr(); err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(s.addr)
		if err != nil {
			return err
		}
		p, err := launch(s.name, s.dir, command{path: s.system.program, user: "redis", args: []string{
			"--bind", loopback, "--port", port, "--dir", s.dir, "--maxclients", "1000",
			"--appendonly", "yes", "--appendfsync", fsync, "--save", "",
		}})
		if err != nil {
			return err
		}
		s.processes = []*process{p}
		return nil
	}
}
