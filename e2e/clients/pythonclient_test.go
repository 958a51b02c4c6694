package clients_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/testenv"
)

// The Python client, in clients/python.

const (
	pyClient = "../../clients/python"
	// pyPackages is where .ci/run installs what the tests need, as testdata/python/requirements.txt lists it.
	pyPackages = "../testdata/python/.venv"
)

// python runs programs with the Python client as it is in the repository.
type python struct {
	path   string
	source string   // of the client
	env    []string // so that the interpreter finds it
}

// needPython skips the test where there is no Python, or a package is missing.
func needPython(t *testing.T, modules ...string) python {
	t.Helper()
	path, err := tools.Find("python3", filepath.Join(pyPackages, "bin"))
	if err != nil {
		t.Skip("NOT TESTED: THE PYTHON CLIENT: there is no python3")
	}
	for _, module := range append([]string{"nats"}, modules...) {
		if missing := missingModule(t, path, module); missing != "" {
			t.Skipf("NOT TESTED: THE PYTHON CLIENT: expected Python 3.10 or newer with %s, as .ci/run installs it: %s", module, missing)
		}
	}
	source, err := filepath.Abs(pyClient)
	if err != nil {
		t.Fatal(err)
	}
	return python{path: path, source: source, env: []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + source}}
}

var pyModules struct {
	sync.Mutex
	missing map[string]string
}

// missingModule says why an interpreter cannot import a module, "": it can. It asks once for each: nats-py takes a third of a second.
func missingModule(t *testing.T, path, module string) string {
	t.Helper()
	pyModules.Lock()
	defer pyModules.Unlock()
	missing, known := pyModules.missing[module]
	if !known {
		check := "import sys, " + module + "; sys.exit(sys.version_info < (3, 10))"
		if out, err := pqd.Command(t, path, "-c", check).CombinedOutput(); err != nil {
			missing = fmt.Sprintf("%v %s", err, out)
		}
		if pyModules.missing == nil {
			pyModules.missing = make(map[string]string)
		}
		pyModules.missing[module] = missing
	}
	return missing
}

// command is a program in Python that has a while to end.
func (py python) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := pqd.Command(t, py.path, args...)
	cmd.Env = append(os.Environ(), py.env...)
	return cmd
}

// pyOptional has what some files of tests need beside nats-py.
var pyOptional = map[string][]string{
	"test_celery": {"celery"}, "test_celery_costs": {"celery"}, "test_celery_results": {"celery"}, "test_kombu": {"celery"},
	"test_taskiq": {"taskiq"},
}

// pyRights has users who may do little, beside one who needs no login.
const pyRights = `listen: "127.0.0.1:-1", no_auth_user: all, authorization { users: [
  {user: all, password: all},
  {user: few, password: few, permissions: {publish: ["pq.jobs.push"], subscribe: ["_INBOX.*.>"]}}
  {user: worker, password: worker, permissions: {publish: ["pq.*.pop.*", "pq.*.push", "pq.*.push.*", "pq.*.ack.*.*", "kombu.pq.>"], subscribe: ["_INBOX.worker.>"]}}
  {user: apart, password: apart, permissions: {publish: {allow: [">"], deny: ["pq.*.ack.bundle.settle"]}}}
  {user: star, password: star, permissions: {publish: ["pq.*.push.*"], subscribe: ["_INBOX.star.>"]}}
  {user: taker, password: taker, permissions: {publish: ["pq.*.pop.*"], subscribe: ["_INBOX.taker.>"]}}
] }`

// Each file of tests runs by itself, against one pqd: their queues have names of their own. Those of Celery count all queues,
// and have a pqd for themselves.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	p := pyDaemon(t)
	files := matching(t, filepath.Join(py.source, "tests/test_*.py"))
	if len(files) == 0 {
		t.Fatal("there are no tests")
	}
	for _, file := range files {
		module := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(strings.TrimPrefix(module, "test_"), func(t *testing.T) {
			t.Parallel()
			p := p
			if module == "test_celery" {
				p = pyDaemon(t)
			}
			runPythonTests(t, p, needPython(t, pyOptional[module]...), module)
		})
	}
}

// Each item is at the client or in the queue, however often waits are cancelled beside pushes; and a hundred deploys count as
// nothing.
func TestPythonClientLeaves(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the same, some dozen times")
	t.Parallel()
	py := needPython(t)
	py.env = append(py.env, "PQ_TEST_WAITS=1500", "PQ_TEST_DEPLOYS=100")
	runPythonTests(t, pyDaemon(t), py, "test_presence", "test_worker")
}

// pyDaemon is a pqd with the users of the tests.
func pyDaemon(t *testing.T) *testenv.Process {
	t.Helper()
	return stopped(t, testenv.Daemon(t, append(withStreams(t, pyRights), "PQ_LISTEN=", "NATS_USER=all", "NATS_PASSWORD=all")...))
}

// stopped has a pqd end as it should when the test and its parts have ended.
func stopped(t *testing.T, p *testenv.Process) *testenv.Process {
	t.Cleanup(func() { p.Stop(t) })
	return p
}

func runPythonTests(t *testing.T, p *testenv.Process, py python, modules ...string) {
	t.Helper()
	cmd := py.command(t, append([]string{"-X", "dev", "-m", "unittest", "-b"}, modules...)...)
	cmd.Dir = filepath.Join(py.source, "tests")
	cmd.Env = append(cmd.Env, "NATS_URL="+p.URL, "CELERY_DIR="+t.TempDir(), testenv.Slow())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGABRT) } // so that it says what its threads do
	out, err := cmd.CombinedOutput()
	ran := regexp.MustCompile(`(?m)^Ran [1-9]\d* tests? in .*\n\nOK$`)
	if err != nil || !ran.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPythonClientKills(t *testing.T) {
	nightly.Only(t, "TestPythonClient has each of its calls, and TestEndsUnderLoad kills pqd")
	t.Parallel()
	py := needPython(t)
	for _, role := range []string{"consume", "next", "pop", "threads"} {
		t.Run(role, func(t *testing.T) {
			killWhileProgramsRun(t, role, 400, cmp.Or(*pqd.Kills, 2), func(p *testenv.Process, nats string, args ...string) *clientProgram {
				return startProgram(t, p, nats, py.path, py.env, append([]string{filepath.Join(py.source, "tests/load.py")}, args...)...)
			})
		})
	}
}

// Requests go on when the active node of a cluster is killed: the client repeats them on another connection.
func TestPythonClientOnCluster(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the same on one pqd")
	t.Parallel()
	py := needPython(t)
	nodes := testenv.NewNodes(t)
	start := func(args ...string) *clientProgram {
		return startProgram(t, nodes.All[0], nodes.URL(), py.path, py.env, append([]string{filepath.Join(py.source, "tests/load.py")}, args...)...)
	}
	takers := []*clientProgram{start("consume", "jobs"), start("pop", "jobs")}
	const items = 200
	eachOnce(t, start("push", "jobs", fmt.Sprint(items)), takers, items, 1, func(int) { nodes.Active(t).Kill(t) })
	out, err := py.command(t, "-c", `import sys
from pqbridge import sync
with sync.connect(sys.argv[1].split(",")) as client:
    cluster = client.cluster()
    print(len(cluster["members"]), [m["role"] for m in cluster["members"]].count("active"), client.queue("jobs").info()["ready"])`, nodes.URL()).Output() // stderr says that a server is away
	if want := "3 1 0\n"; err != nil || string(out) != want {
		t.Errorf("%s and %v, expected %s", out, err, want)
	}
}

// Tasks of Celery run once although pqd is killed and starts again meanwhile, and once more if their
// worker is killed while it runs them.
func TestCeleryRestarts(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the transport without restarts")
	t.Parallel()
	runCelery(t, testenv.Daemon(t), "celery_load.py", nil, map[string]func(*testing.T, *testenv.Process){
		"restart": func(t *testing.T, p *testenv.Process) { p.Kill(t); p.Start(t) },
	}, "restart", "restart")
}

// A task with a countdown of a week waits in the queue while everything is away, runs when it is due and
// not before, and once.
func TestCeleryWeek(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the transport, a moment each")
	t.Parallel()
	acts := make(map[string]func(*testing.T, *testenv.Process))
	times := []string{"away 0s", "away 167h", "away 1h"}
	for _, line := range times {
		ago, err := time.ParseDuration(strings.TrimPrefix(line, "away "))
		if err != nil {
			t.Fatal(err)
		}
		acts[line] = func(t *testing.T, p *testenv.Process) { pqd.Away(t, p, ago) }
	}
	runCelery(t, testenv.Daemon(t), "celery_week.py", nil, acts, times...)
}

// celeryRights has a user with the permissions that the page about Celery names, for all queues, since those of
// results have any name.
const celeryRights = `listen: "127.0.0.1:-1", tls { cert_file: %q, key_file: %q }, authorization { users: [
  {user: pqd, password: pqd},
  {user: celery, password: "se:cret/@", permissions: {
    publish: ["pq.*.push", "pq.*.push.*", "pq.*.pop.*", "pq.*.peek.*", "pq.*.ack.*.*", "pq.*.info", "pq.*.get.*", "pq.*.remove.*", "pq.*.admin.config", "pq.*.admin.purge", "kombu.pq.>"]
    subscribe: ["_INBOX.>", "kombu.pq.>"]
  }}
] }`

func TestCeleryLogin(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the transport")
	t.Parallel()
	dir := t.TempDir()
	cert, key := pqd.Certificate(t, dir)
	config := filepath.Join(dir, "nats.conf")
	pqd.Write(t, config, fmt.Sprintf(celeryRights, cert, key))
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "NATS_USER=pqd", "NATS_PASSWORD=pqd")
	address := strings.TrimPrefix(strings.TrimPrefix(p.URL, "nats://"), "tls://")
	runCelery(t, p, "celery_login.py", []string{"CELERY_BROKER=pqs://celery:se%3Acret%2F%40@" + address, "CELERY_CA=" + cert}, nil)
}

// runCelery runs a program that says with lines what is to be done with pqd, in this order, and then that it is done.
func runCelery(t *testing.T, p *testenv.Process, program string, env []string, acts map[string]func(*testing.T, *testenv.Process), order ...string) {
	t.Helper()
	py := needPython(t, "celery")
	cmd := py.command(t, program)
	cmd.Dir = filepath.Join(py.source, "tests")
	cmd.Env = append(cmd.Env, "NATS_URL="+p.URL, "CELERY_DIR="+t.TempDir(), testenv.Slow())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGABRT) } // so that it says what its threads do
	cmd.Env = append(cmd.Env, env...)
	input, lines := talkTo(t, cmd)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if act := acts[lines.Text()]; act != nil {
			act(t, p)
			fmt.Fprintln(input)
		}
	}
	if err := cmd.Wait(); err != nil || !slices.Equal(said, append(order, "done")) {
		t.Errorf("%v after %q", err, said)
	}
	p.Stop(t)
}

// On Redis with a short visibility timeout long and delayed tasks start more than once, on pqd once.
func TestCeleryBesideRedis(t *testing.T) {
	nightly.Only(t, "it compares with another broker")
	t.Parallel()
	py := needPython(t, "celery", "redis")
	if _, err := tools.Find("redis-server"); err != nil {
		t.Skip("NOT TESTED: CELERY ON PQD BESIDE REDIS: there is no redis-server")
	}
	p := testenv.Daemon(t)
	out, err := py.command(t, filepath.Join(py.source, "examples/celery_beside_redis.py"), strings.TrimPrefix(p.URL, "nats://")).CombinedOutput()
	found := regexp.MustCompile(`(?m)on (\w+): (\d+) starts$`).FindAllStringSubmatch(string(out), -1)
	if err != nil || len(found) != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, side := range found {
		if (side[1] == "pqd") != (side[2] == "1") {
			t.Errorf("%s", out)
		}
	}
	p.Stop(t)
}

// Of the tasks that a killed worker of Celery had, only those that ran start again, or are lost if they were acknowledged
// before: one for each of its two processes. A campaign has more tasks and kills, beside Redis.
func TestCeleryKills(t *testing.T) {
	nightly.Only(t, "TestPythonClient kills a worker that has a task of either kind")
	t.Parallel()
	py := needPython(t, "celery", "redis")
	if _, err := tools.Find("redis-server"); err != nil {
		t.Skip("NOT TESTED: CELERY ON PQD BESIDE REDIS: there is no redis-server")
	}
	tasks, kills := max(*pqd.Ops, 200), max(*pqd.Kills, 1)
	for name, c := range map[string]struct {
		options  []string
		mostLost int
	}{
		"late":  {nil, 0},
		"early": {[]string{"--early"}, 2 * kills},
	} {
		t.Run(name, func(t *testing.T) {
			if *pqd.Ops == 0 {
				t.Parallel() // figures of a campaign are of one run at a time
			}
			p := testenv.Daemon(t)
			args := []string{absolute(t, filepath.Join(py.source, "examples/celery_kills.py")), strings.TrimPrefix(p.URL, "nats://"), fmt.Sprint(tasks), fmt.Sprint(kills)}
			cmd := p.Command(t, py.path, append(args, c.options...)...)
			cmd.Env = append(cmd.Env, py.env...)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			var lost, doubled, killed int
			found := regexp.MustCompile(`(?m)^pqd: .* (\d+) kills, (-?\d+) lost, (\d+) doubled$`).FindStringSubmatch(string(out))
			if err != nil || found == nil {
				t.Fatal(err)
			}
			fmt.Sscan(strings.Join(found[1:], " "), &killed, &lost, &doubled)
			if killed != kills || lost < 0 || lost > c.mostLost || doubled > 2*kills {
				t.Errorf("of %d tasks %d were lost and %d doubled by %d kills", tasks, lost, doubled, killed)
			}
			p.Stop(t)
		})
	}
}

// What the page about Celery has is typed as it stands, with another address.
func TestCeleryPage(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the transport")
	t.Parallel()
	py := needPython(t, "celery", "taskiq")
	p := testenv.Daemon(t)
	dir, page := t.TempDir(), "../../docs/celery.md"
	blocks := testenv.Blocks(t, page, "python")
	commands := testenv.Blocks(t, page, "sh")
	if len(blocks) != 2 || len(commands) != 2 {
		t.Fatalf("%d programs and %d blocks of commands, expected two of each", len(blocks), len(commands))
	}
	pqd.Write(t, filepath.Join(dir, "tasks.py"), strings.ReplaceAll(blocks[0].Text, "127.0.0.1:4222", strings.TrimPrefix(p.URL, "nats://")))
	worker, sender, _ := strings.Cut(strings.TrimSpace(commands[1].Text), "\n")
	script := "set -e\n" + worker + " & worker=$!\n" + sender + "\nkill $worker\nwait $worker\n" + "python -c '" + blocks[1].Text + "'\n"
	cmd := py.command(t)
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", script}
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(py.path)+":"+os.Getenv("PATH"), "C_FORCE_ROOT=1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "\n5\n") {
		t.Errorf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	p.Stop(t)
}

// What the page about FastAPI has is typed as it stands, with other addresses: a request is answered at once, and the worker
// does its job.
func TestFastAPIPage(t *testing.T) {
	nightly.Only(t, "TestPythonClient has the calls")
	t.Parallel()
	py := needPython(t, "fastapi", "uvicorn")
	p := testenv.Daemon(t)
	dir, page, port := t.TempDir(), "../../docs/fastapi.md", freePort(t)
	blocks, commands := testenv.Blocks(t, page, "python"), testenv.Blocks(t, page, "sh")
	if len(blocks) != 3 || len(commands) != 3 {
		t.Fatalf("%d programs and %d blocks of commands, expected three of each", len(blocks), len(commands))
	}
	for name, text := range map[string]string{"app.py": blocks[0].Text + "\n" + blocks[2].Text, "worker.py": blocks[1].Text} {
		pqd.Write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "connect()", fmt.Sprintf("connect(%q)", p.URL)))
	}
	run := strings.NewReplacer("8000 &", port+" >&2 &", "8000", port, "worker.py &", "worker.py >done &").Replace(commands[1].Text)
	script := "set -e\nmkfifo done\nexec 3<>done\n" + run + `
curl -sS http://127.0.0.1:` + port + `/pictures/none
` + strings.ReplaceAll(commands[2].Text, "8000", port) + `
read -r line <&3
kill %1 %2
wait
echo "$line"`
	cmd := py.command(t)
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "-c", script}
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(py.path)+":"+os.Getenv("PATH"))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if want := regexp.MustCompile(`^\{"job":"\S+"\}\{"detail":"it is done, or nobody has asked for it"\}\{"file":"small/dog.png"\}\s*resized cat.png to 200\n$`); err != nil || !want.MatchString(out.String()) {
		t.Errorf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	p.Stop(t)
}

// pyPage runs the examples of the client's page as one program.
const pyPage = `import asyncio, sys
servers = sys.argv[1]
%s`

func TestPythonClientPage(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	page, program := filepath.Join(pyClient, "README.md"), filepath.Join(t.TempDir(), "page.py")
	blocks := testenv.Blocks(t, page, "python")
	var examples strings.Builder
	for _, block := range blocks {
		fmt.Fprintf(&examples, "%s\nprint(%q, flush=True)\n", strings.ReplaceAll(block.Text, "connect()", "connect(servers)"), separator)
	}
	pqd.Write(t, program, fmt.Sprintf(pyPage, examples.String()))
	p := testenv.Daemon(t, withStreams(t, "")...)
	out, err := py.command(t, program, p.URL).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	judgePythonExamples(t, blocks, string(out))
	p.Stop(t)
}

// judgePythonExamples is judgeExamples with the comments of Python.
func judgePythonExamples(t *testing.T, blocks []testenv.Block, output string) {
	t.Helper()
	for i := range blocks {
		blocks[i].Text = strings.ReplaceAll(blocks[i].Text, ")  # ", ") // ")
	}
	judgeExamples(t, blocks, output, `.*print\(.*\)`)
}

// The package and its tests pass the strictest type check.
func TestPythonClientTypes(t *testing.T) {
	nightly.Only(t, "it runs type checkers")
	t.Parallel()
	py := needPython(t, "mypy", "celery", "taskiq")
	cmd := py.command(t, "-m", "mypy", "--strict", "--cache-dir", t.TempDir(), "pqbridge", "tests")
	cmd.Dir = py.source
	cmd.Env = append(cmd.Env, "MYPYPATH=tests")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is built has all modules, the mark of a typed package and the license, and works where
// nothing of the repository is.
func TestPythonClientPackage(t *testing.T) {
	nightly.Only(t, "it builds a package with pip")
	t.Parallel()
	py := needPython(t, "build", "flit_core")
	dir := t.TempDir()
	source, dist, installed := filepath.Join(dir, "source"), filepath.Join(dir, "dist"), filepath.Join(dir, "installed")
	if err := os.CopyFS(source, os.DirFS(py.source)); err != nil {
		t.Fatal(err)
	}
	if out, err := py.command(t, "-m", "build", "--no-isolation", "--outdir", dist, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wheels := matching(t, filepath.Join(dist, "*.whl"))
	if sources := matching(t, filepath.Join(dist, "*.tar.gz")); len(wheels) != 1 || len(sources) != 1 {
		t.Fatalf("wheels %q and sources %q, expected one of each", wheels, sources)
	}
	if out, err := py.command(t, "-m", "pip", "install", "--no-index", "--no-deps", "--target", installed, wheels[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range append(matching(t, filepath.Join(py.source, "pqbridge/*.py")), "py.typed") {
		if _, err := os.Stat(filepath.Join(installed, "pqbridge", filepath.Base(file))); err != nil {
			t.Error(err)
		}
	}
	if pqd.Read(t, filepath.Join(pyClient, "LICENSE")) != pqd.Read(t, "../../LICENSE") {
		t.Error("the license of the Python client differs from the project's")
	}
	p := testenv.Daemon(t)
	cmd := py.command(t, "-c", `import sys
from pqbridge import sync
with sync.connect(sys.argv[1]) as client:
    client.queue("q").push("x")
    print(client.queue("q").pop().text, sync.__file__)`, p.URL)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+installed)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "x "+installed) {
		t.Errorf("%v\n%s", err, out)
	}
	p.Stop(t)
}
