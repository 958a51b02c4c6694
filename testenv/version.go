package testenv

import "testing"

// DaemonOf is Daemon with another program, such as pqd of an earlier version.
func DaemonOf(t testing.TB, program string, env ...string) *Process {
	t.Helper()
	p := prepare(t, env)
	p.Runs(program)
	p.launch(t)
	p.AwaitReady(t)
	return p
}

// NodesOf is NewNodes with a program for each of the nodes.
func NodesOf(t testing.TB, programs []string, env ...string) *Nodes {
	t.Helper()
	n := newNodes(t, func([]string) []string { return env })
	for i, p := range n.All {
		p.Runs(programs[i])
	}
	n.begin(t)
	return n
}

// Runs has a process be another program from its next start on; "": pqd of this repository.
func (p *Process) Runs(program string) { p.program = program }
