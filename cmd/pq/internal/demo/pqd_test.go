//go:build unix

package demo

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// program is a pq that runs demo, and leads a process group as at a terminal.
type program struct {
	*exec.Cmd
	lines  *bufio.Scanner
	stdout *os.File
	stderr bytes.Buffer
	said   strings.Builder // of the lines that were read
}

func begin(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	testenv.Build(t, "cmd/pqd") // beside pq
	p := &program{Cmd: exec.CommandContext(t.Context(), testenv.Build(t, "cmd/pq"), append([]string{"demo", "--pause", "0s"}, args...)...)}
	p.Env, p.SysProcAttr, p.Stderr = append(env, "HOME="+t.TempDir()), &syscall.SysProcAttr{Setpgid: true}, &p.stderr
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	p.Stdout, p.stdout, p.lines = in, out, bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil { // the program alone writes to it
		t.Fatal(err)
	}
	return p
}

// until reads lines up to one with a text; "": all.
func (p *program) until(t *testing.T, text string) {
	t.Helper()
	for p.lines.Scan() {
		p.said.WriteString(p.lines.Text() + "\n")
		if text != "" && strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	if text != "" {
		t.Fatalf("it has not said %q:\n%s%s", text, &p.said, &p.stderr)
	}
}

// ends waits for the end, and expects an exit code and no errors.
func (p *program) ends(t *testing.T, code int) {
	t.Helper()
	_ = p.Wait()
	if p.ProcessState.ExitCode() != code || p.stderr.Len() > 0 {
		t.Errorf("exit code %d, expected %d\n%s%s", p.ProcessState.ExitCode(), code, &p.said, &p.stderr)
	}
}

// interrupt is Ctrl-C at a terminal, which reaches all programs of the group.
func (p *program) interrupt(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-p.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
}

// address is that of the pqd of the demo, as it has said it.
func (p *program) address(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(p.said.String(), "nats://")
	if !found {
		t.Fatalf("it has said no address:\n%s%s", &p.said, &p.stderr)
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(",; \n", r) })[0]
}

// nothingLeft expects that the pqd of a demo is gone, with its folder.
func (p *program) nothingLeft(t *testing.T, folder string) {
	t.Helper()
	if c, err := net.Dial("tcp", p.address(t)); err == nil {
		c.Close()
		t.Errorf("pqd still listens on %s", p.address(t))
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", folder, left, err)
	}
}

// Alone the demo needs nothing that runs, whatever settings there are for a pqd and for pq.
func TestAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := begin(t, []string{"TMPDIR=" + folder, "NATS_URL=nats://127.0.0.1:1", "NATS_TOKEN=x", "PQ_STORE=nowhere:", "PQ_PREFIX=other"}, "--alone")
	p.until(t, "")
	p.ends(t, 0)
	if found := headings(p.said.String()); !slices.Equal(found, all()) {
		t.Errorf("found the steps %q in\n%s", found, &p.said)
	}
	p.nothingLeft(t, folder)
}

// Ctrl-C and SIGTERM end the demo at once, and its pqd with it.
func TestInterruptedAlone(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			p := begin(t, []string{"TMPDIR=" + folder}, "--alone")
			p.until(t, "hangs, and") // of the longer steps
			p.interrupt(t, signal)
			p.until(t, "")
			p.ends(t, session.ExitInterrupted)
			p.nothingLeft(t, folder)
		})
	}
}

// With --keep the pqd of the demo goes on until Ctrl-C, which is no failure then.
func TestAloneUntilInterrupted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := begin(t, []string{"TMPDIR=" + folder}, "--alone", "--keep")
	p.until(t, "until Ctrl-C")
	nc, err := net.Dial("tcp", p.address(t))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	p.interrupt(t, syscall.SIGINT)
	p.until(t, "")
	p.ends(t, 0)
	p.nothingLeft(t, folder)
}

// Beside another pqd the queues go, also when nobody reads what the demo says.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	d := testenv.Daemon(t)
	c, err := client.New(d.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	left := &place{client: c}
	env := []string{"NATS_URL=" + d.URL, "NATS_TIMEOUT=" + testenv.Patience().String()}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := begin(t, env)
		p.until(t, "hangs, and")
		p.interrupt(t, signal)
		p.until(t, "")
		p.ends(t, session.ExitInterrupted)
		left.expectQueues(t)
	}
	p := begin(t, env)
	p.until(t, "1. ")
	if err := p.stdout.Close(); err != nil {
		t.Fatal(err)
	}
	p.ends(t, session.ExitFailed)
	left.expectQueues(t)
}

// Without a pqd the demo says so; one that does not start says why.
func TestNoPqd(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, tc := range map[string]struct{ script, want string }{
		"none":   {"", "found no pqd beside pq, nor on PATH"},
		"broken": {"#!/bin/sh\necho no disk >&2\nexit 1\n", "ended before it was ready: exit status 1: no disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			if tc.script != "" {
				if err := os.WriteFile(filepath.Join(path, "pqd"), []byte(tc.script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			p := &place{env: []string{"PATH=" + path, "TMPDIR=" + folder}}
			if err := Run(p.session(t.Context(), t, &out), Options{Alone: true}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, expected %s", err, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}
