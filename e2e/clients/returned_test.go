package clients_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// What handlers in three languages return arrives at their callers, one value for each, while callers, workers and pqd are killed.
func TestReturnedValues(t *testing.T) {
	nightly.Only(t, "TestResultsBesideKills has the same in Go, and the tests of each client what it sends")
	t.Parallel()
	py, node := needPython(t), nodejs.Need(t)
	dir := packed(t, node)
	n, kills := cmp.Or(*pqd.Ops, 5_000), cmp.Or(*pqd.Kills, 4)
	random := pqd.Seeded(t)
	p := testenv.Daemon(t)
	url := p.URL // stays what it is, and a start of p writes it
	asked := pqd.NewAsked(t, url, n)
	program := func(interpreter string, env []string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			cmd := pqd.Command(t, interpreter, append(args, "returns", "asked")...)
			cmd.Env = append(append(os.Environ(), env...), "NATS_URL="+url)
			return cmd
		}
	}
	python := program(py.path, py.env, filepath.Join(py.source, "tests/load.py"))
	javascript := program(node.Path, nil, filepath.Join(dir, "test", "load.mjs"))
	asked.Programs = []func() *exec.Cmd{python, javascript, python, javascript}
	took := asked.Run(random, 64, 4, kills, func(int) {
		p.Kill(t)
		p.Start(t)
	})
	t.Logf("%d callers were answered in %s beside %d kills of pqd", n, took.Round(time.Millisecond), kills)
	asked.Judge()
	p.Stop(t)
}
