package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is a program to run as a child.
type command struct {
	path string
	args []string
	env  []string // added to a minimal environment
	user string   // to run as when this process is root; "": as this process
}

// process is a child of this process, with whatever it starts.
type process struct {
	name string
	what command
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  string        // file with what it printed
}

// launch starts a child with its own data directory, which is made when it is
// not there and belongs to the child's user.
func launch(name, dir string, c command) (*process, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &process{name: name, what: c, log: dir + ".log", done: make(chan struct{})}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8"}, c.env...)
	// A group of its own: Ctrl-C in a terminal is for this process, which stops
	// its children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.user != "" && os.Geteuid() == 0 {
		credential, err := credentialOf(c.user)
		if err != nil {
			return nil, err
		}
		p.cmd.SysProcAttr.Credential = credential
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		// How it ended is told by its log; that it ended, by done.
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// again starts a child that has ended once more.
func (p *process) again() (*process, error) { return launch(p.name, p.cmd.Dir, p.what) }

func credentialOf(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// finish runs a command that does one thing and ends.
func finish(ctx context.Context, name, dir string, c command) error {
	p, err := launch(name, dir, c)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s\n%s", name, p.cmd.ProcessState, p.lastWords())
	}
	return nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the child to end and, when it does not for long, makes it.
func (p *process) stop(patience time.Duration) error {
	if p.ended() {
		return fmt.Errorf("%s had ended by itself: %s", p.name, p.lastWords())
	}
	p.thaw()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("%s was still there %s after SIGTERM and was killed", p.name, patience)
	}
}

// kill ends the child and its children at once.
func (p *process) kill() {
	for _, pid := range p.pids() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone since
	}
	<-p.done
}

// freeze stops the child and its children until thaw, so that their background
// work does not disturb others.
func (p *process) freeze() {
	// Those that were forked meanwhile are found by looking again.
	for range 3 {
		for _, pid := range p.pids() {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
}

func (p *process) thaw() {
	for _, pid := range p.pids() {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// pids are those of the child, its children, theirs, and so on; none when the
// child has ended.
func (p *process) pids() []int {
	if p.ended() {
		return nil
	}
	return tree(p.cmd.Process.Pid)
}

// tree is a process and all that descend from it.
func tree(root int) []int {
	children := make(map[int][]int)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{root}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields := stat(pid); len(fields) > 1 {
			if parent, err := strconv.Atoi(fields[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// stat is what the kernel says of a process, from its state on; nothing when
// there is none.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The program's name, in parentheses, may contain anything.
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// processorTime is what the threads of processes, and of all that descend from
// them, have used. The times in stat would not do: they come in hundredths of a
// second, which many a process does not use up in a whole measurement.
func processorTime(roots []int) (used time.Duration) {
	for _, root := range roots {
		for _, pid := range tree(root) {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
			if err != nil {
				continue
			}
			for _, thread := range threads {
				text, err := os.ReadFile(thread)
				if err != nil {
					continue // it has gone
				}
				first, _, _ := strings.Cut(string(text), " ")
				if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
					used += time.Duration(ns)
				}
			}
		}
	}
	return used
}

// ownTime is what this process has used.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // the kernel has no reason to refuse
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// memory is what the child and its children have resident, pages that several
// of them share counted once.
func (p *process) memory() (bytes int64, err error) {
	for _, pid := range p.pids() {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(rollup)) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
				kib, err := strconv.ParseInt(fields[1], 10, 64)
				if err != nil {
					return 0, err
				}
				bytes += kib << 10
			}
		}
	}
	return bytes, nil
}

// lastWords are the last lines that the child printed.
func (p *process) lastWords() string {
	file, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := slices.Collect(strings.Lines(string(text)))
	return strings.Join(lines[max(0, len(lines)-5):], "")
}
