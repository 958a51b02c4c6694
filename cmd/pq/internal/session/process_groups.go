package session

import (
	"context"
	"os/exec"
	"sync"
)

// processGroups are the programs that run for items. Each leads a process group of
// its own, so that Ctrl-C at the terminal reaches pq alone, which waits for the
// program. If it does not wait it has to kill the whole group.
type processGroups struct {
	mu     sync.Mutex
	groups map[int]struct{}
	ended  bool
}

// Run starts a program and waits for its end. When the program's context has
// ended, nothing of its group is left.
func (p *processGroups) Run(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = leadsGroup()
	cmd.Cancel = func() error { return endGroup(cmd.Process.Pid) }
	if err := p.start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, cmd.Process.Pid)
	if ctx.Err() != nil {
		killGroup(cmd.Process.Pid) // usually the group is empty
	}
	return err
}

// start holds the lock so that no program starts unseen by kill.
func (p *processGroups) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if p.groups == nil {
		p.groups = make(map[int]struct{})
	}
	p.groups[cmd.Process.Pid] = struct{}{}
	return nil
}

// Kill kills all programs, and lets no other one start.
func (p *processGroups) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for group := range p.groups {
		killGroup(group)
	}
}
