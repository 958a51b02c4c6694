//go:build fdb

package fdbtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Process is a process of a cluster.
type Process struct {
	cluster *Cluster
	program string
	dir     string
	args    []string
	cmd     *exec.Cmd
	exited  chan struct{}
}

// Kill ends the process without warning.
func (p *Process) Kill(testing.TB) { p.kill() }

// Start starts a process that was killed again, with its data and its address.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}

// Pause keeps the process from running, until Resume.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
}

// Resume ends Pause.
func (p *Process) Resume(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

func (p *Process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("send %s to fdbserver: %v", signal, err)
	}
}

func (p *Process) output() string { return filepath.Join(p.dir, "output") }

func (p *Process) start() error {
	output, err := os.OpenFile(p.output(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	p.cmd = exec.Command(p.program, p.args...)
	p.cmd.Dir = p.dir
	p.cmd.Env = append(os.Environ(), p.cluster.Env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = p.cluster.leash.attributes()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.exited = exited
	go func(cmd *exec.Cmd) {
		defer close(exited)
		_ = cmd.Wait() // it was killed, or its output tells
	}(p.cmd)
	return nil
}

func (p *Process) kill() {
	if p.exited == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

// freeAddresses returns addresses without a listener.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after all were found, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// leash is a process that notices the end of this one, however it ends, because that closes a pipe. Then it removes
// the cluster's directory and kills its own process group, to which the cluster's processes belong.
type leash struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

func newLeash(dir string) (*leash, error) {
	// The kernel sends SIGHUP to the group when its last relative dies while one of its
	// processes is paused.
	cmd := exec.Command("sh", "-c", `trap "" HUP; cat >/dev/null; rm -rf "$0"; kill -s KILL 0`, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that cleans up: %w", err)
	}
	return &leash{cmd: cmd, pipe: pipe}, nil
}

// attributes put a process on the leash.
func (l *leash) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: l.cmd.Process.Pid}
}

// let ends the leash, and with it the rest of the group.
func (l *leash) let() {
	_ = l.pipe.Close()
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(os.Stderr, "the process that cleans up: %v\n", err)
	}
}
