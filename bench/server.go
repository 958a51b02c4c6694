package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// site is where systems run: what their programs are and where they put data.
type site struct {
	dir  string // every server has a directory below
	self string // this program
	pqd  string // the daemon, built for the occasion
}

// server is a system that runs.
type server struct {
	system    *system
	name      string
	addr      string // where clients connect
	pages     string // where a daemon serves its metrics
	dir       string // its data
	processes []*process
	under     *server // the server that this one is a client of
}

// The bounds of starting and stopping. A broker with ten million items may take
// its time, and that time is a result.
const (
	startLimit = 5 * time.Minute
	stopLimit  = 2 * time.Minute
)

// open starts a system, with what it finds in its directory, and returns when
// it serves.
func (s *site) open(ctx context.Context, sys *system, name string, under *server) (*server, error) {
	srv := &server{system: sys, name: name, dir: filepath.Join(s.dir, name), under: under}
	if err := srv.start(ctx, s); err != nil {
		return nil, err
	}
	return srv, nil
}

func (s *server) start(ctx context.Context, at *site) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s.processes = nil
	if err := s.system.start(ctx, at, s); err != nil {
		s.kill()
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	if err := s.ready(ctx); err != nil {
		err = fmt.Errorf("start %s: %w", s.name, err)
		for _, p := range s.processes {
			err = fmt.Errorf("%w\n%s", err, p.lastWords())
		}
		s.kill()
		return err
	}
	return nil
}

// ready waits until the server has taken and given an item.
func (s *server) ready(ctx context.Context) error {
	return s.patiently(ctx, func() error {
		if s.system.prepare != nil {
			if err := s.system.prepare(s.addr); err != nil {
				return err
			}
		}
		c, err := s.system.connect(s.addr)
		if err != nil {
			return err
		}
		defer c.close()
		if !s.system.can(verbPop) {
			return c.push(0, newPayloads(0).next())
		}
		// What is there after a restart may be taken instead: all are alike.
		if err := c.push(0, newPayloads(0).next()); err != nil {
			return err
		}
		return c.pop()
	})
}

// patiently repeats what fails while a server starts.
func (s *server) patiently(ctx context.Context, attempt func() error) error {
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		for _, p := range s.processes {
			if p.ended() {
				return fmt.Errorf("%s has ended", p.name)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop ends the server; its data stays.
func (s *server) stop() error {
	if s.under != nil {
		s.under.thaw() // it has connections to close
	}
	var errs []error
	for i := len(s.processes) - 1; i >= 0; i-- {
		errs = append(errs, s.processes[i].stop(stopLimit))
	}
	s.processes = nil
	return errors.Join(errs...)
}

func (s *server) kill() {
	for _, p := range s.processes {
		p.kill()
	}
	s.processes = nil
}

// roots are the processes that do the server's work, those that it lives on
// included.
func (s *server) roots() (pids []int) {
	for _, p := range s.processes {
		pids = append(pids, p.cmd.Process.Pid)
	}
	if s.under != nil {
		pids = append(pids, s.under.roots()...)
	}
	return pids
}

// freeze and thaw take turns: only the server that is measured runs.
func (s *server) freeze() {
	if s.system.nodes {
		return // see replicated.go
	}
	for _, p := range s.processes {
		p.freeze()
	}
	if s.under != nil {
		s.under.freeze()
	}
}

func (s *server) thaw() {
	if s.under != nil {
		s.under.thaw()
	}
	for _, p := range s.processes {
		p.thaw()
	}
}

func (s *server) memory() (bytes int64, err error) {
	for _, p := range s.processes {
		n, err := p.memory()
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

// disk is the space that the server's files take.
func (s *server) disk() (bytes int64, err error) {
	err = filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // files come and go
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return bytes, err
}

// loopback is the address at which every server listens.
const loopback = "127.0.0.1"

// freePort finds a port that nobody listens at now. Whoever takes it first has
// it, which on one machine with few programs is good enough.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// freeAddr is loopback with a port that nobody listens at.
func freeAddr() (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port)), nil
}
