package clients_test

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/testenv"
)

// The JavaScript client, as npm would publish it.

const jsClient = "../../clients/js"

// packed returns a directory with the tests of the JavaScript client. They find the package as
// programs do, by its name, and have nothing of it that is not published.
func packed(t *testing.T, n nodejs.Node) string {
	t.Helper()
	npm, err := tools.Find("npm")
	if err != nil {
		t.Skip("NOT TESTED: THE JAVASCRIPT CLIENT: there is no npm")
	}
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	if err := os.Mkdir(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	installed, err := os.ReadDir(n.Packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range installed {
		if err := os.Symlink(filepath.Join(n.Packages, entry.Name()), filepath.Join(modules, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	source, err := filepath.Abs(jsClient)
	if err != nil {
		t.Fatal(err)
	}
	pack := pqd.Command(t, npm, "pack", "--ignore-scripts", "--silent", "--pack-destination", dir, source)
	pack.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_offline=true", "npm_config_update_notifier=false")
	name, err := pack.Output()
	if err != nil {
		t.Fatalf("npm pack: %v, %s", err, name)
	}
	unpack(t, filepath.Join(dir, strings.TrimSpace(string(name))), filepath.Join(modules, "pqbridge"))
	if err := os.CopyFS(filepath.Join(dir, "test"), os.DirFS(filepath.Join(source, "test"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpack unpacks what npm has packed.
func unpack(t *testing.T, archive, to string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, strings.TrimPrefix(header.Name, "package/"))
		content, err := io.ReadAll(files)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		pqd.Write(t, path, string(content))
	}
}

// jsImport finds the modules beside it that a module of the client imports when it runs. Those in comments are types.
var jsImport = regexp.MustCompile(`(?m)^(?:import|export)\b[^;]*?["']\./([^"']+)["'];`)

// A module of the client has what those below it do: two that need one another are one in two files, and which of them
// is there first depends on who imports it.
func TestJavaScriptClientImports(t *testing.T) {
	t.Parallel()
	needs := make(map[string][]string)
	for _, file := range matching(t, filepath.Join(jsClient, "src/*.js")) {
		for _, found := range jsImport.FindAllStringSubmatch(pqd.Read(t, file), -1) {
			needs[filepath.Base(file)] = append(needs[filepath.Base(file)], found[1])
		}
	}
	if len(needs["index.js"]) == 0 {
		t.Fatalf("index.js imports nothing among %d modules", len(needs))
	}
	fine := make(map[string]bool)
	var visit func(path []string, module string)
	visit = func(path []string, module string) {
		if begin := slices.Index(path, module); begin >= 0 {
			t.Errorf("modules import one another: %s", strings.Join(append(path[begin:], module), " → "))
		} else if !fine[module] {
			for _, other := range needs[module] {
				visit(append(path[:len(path):len(path)], module), other)
			}
			fine[module] = true
		}
	}
	for _, module := range slices.Sorted(maps.Keys(needs)) {
		visit(nil, module)
	}
}

// withRights has users who may do little, beside one who needs no login.
const withRights = `listen: "127.0.0.1:-1", no_auth_user: all, authorization { users: [
	{user: all, password: all},
	{user: few, password: few, permissions: {publish: ["pq.jobs.push"], subscribe: ["_INBOX.*.>"]}},
	{user: five, password: five, permissions: {publish: ["pq.five.push.5"], subscribe: ["_INBOX.>"]}},
	{user: star, password: star, permissions: {publish: ["pq.star.push.*"], subscribe: ["_INBOX.>"]}},
	{user: single, password: single, permissions: {publish: {allow: ["pq.>"], deny: ["pq.*.ack.bundle.settle"]}, subscribe: ["_INBOX.>"]}},
	{user: worker, password: worker, permissions: {publish: ["pq.*.push", "pq.*.pop.*", "pq.*.peek.*", "pq.*.ack.*.*", "pq._sys.cluster.status"], subscribe: ["_INBOX.worker.>"]}},
	{user: taker, password: taker, permissions: {publish: ["pq.*.pop.*"], subscribe: ["_INBOX.>"]}}
] }`

// Each file of tests runs by itself, all of them against one pqd: their queues have names of their own.
func TestJavaScriptClient(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	dir := packed(t, node)
	files := matching(t, filepath.Join(dir, "test/*.test.mjs"))
	if len(files) == 0 {
		t.Fatal("there are no tests")
	}
	p := stopped(t, testenv.Daemon(t, append(withStreams(t, withRights), "PQ_LISTEN=", "NATS_USER=all", "NATS_PASSWORD=all")...))
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			cmd := pqd.Command(t, node.Path, "--test", "--test-reporter=tap", file)
			cmd.Env = append(os.Environ(), "NATS_URL="+p.URL, "PQ_TEST_FEW=few", fmt.Sprint("PQ_TEST_ROUNDS=", nightly.Fewer(10_000)), testenv.Slow())
			out, err := cmd.CombinedOutput()
			counts := regexp.MustCompile(`(?m)^# (pass|fail|cancelled|skipped|todo) (\d+)$`).FindAllStringSubmatch(string(out), -1)
			if len(counts) != 5 {
				t.Fatalf("%v, and no counts of tests in %s", err, out)
			}
			for _, count := range counts {
				if (count[2] == "0") == (count[1] == "pass") {
					t.Errorf("%s tests: %s", count[1], count[2])
				}
			}
			if err != nil || t.Failed() {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The declarations for TypeScript say what the modules have, and the modules keep their own types.
func TestJavaScriptClientTypes(t *testing.T) {
	nightly.Only(t, "it runs a type checker")
	t.Parallel()
	node := nodejs.Need(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(jsClient)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(node.Packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	compiler := filepath.Join(node.Packages, "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("NOT TESTED: THE TYPES OF THE JAVASCRIPT CLIENT: run npm ci in cmd/pqd/%s", nodejs.Scripts)
	}
	if out, err := pqd.Command(t, node.Path, compiler, "--noEmit", "--project", dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Each block of the client's page is a program of its own behind the one that connects, one after another on one pqd.
func TestJavaScriptClientPage(t *testing.T) {
	t.Parallel()
	const printedAddress = "nats://127.0.0.1:4222"
	node := nodejs.Need(t)
	page, program := filepath.Join(jsClient, "README.md"), filepath.Join(packed(t, node), "page.mjs")
	blocks := testenv.Blocks(t, page, "js")
	p := testenv.Daemon(t, withStreams(t, "")...)
	connects := strings.Replace(blocks[0].Text, printedAddress, p.URL, 1)
	if connects == blocks[0].Text {
		t.Fatalf("%s: expected a block that connects to %s", blocks[0].Where(0), printedAddress)
	}
	var output strings.Builder
	for _, block := range blocks[1:] {
		pqd.Write(t, program, connects+block.Text+"await nc.close();\n")
		output.WriteString(pqd.Run(t, node.Path, program) + separator + "\n")
	}
	judgeExamples(t, blocks[1:], output.String(), `.*console\.log\(.*\)+;`)
	p.Stop(t)
}

// The package has the license of the project.
func TestJavaScriptClientLicense(t *testing.T) {
	t.Parallel()
	if pqd.Read(t, filepath.Join(jsClient, "LICENSE")) != pqd.Read(t, "../../LICENSE") {
		t.Error("the license of the JavaScript client differs from the project's")
	}
}

// startScript starts a program of clients/js/test and waits until it is ready.
func startScript(t *testing.T, n nodejs.Node, p *testenv.Process, nats, dir, program string, args ...string) *clientProgram {
	t.Helper()
	return startProgram(t, p, nats, n.Path, nil, append([]string{filepath.Join(dir, "test", program)}, args...)...)
}

func TestJavaScriptClientKills(t *testing.T) {
	nightly.Only(t, "TestJavaScriptClient has each of its calls, and TestEndsUnderLoad kills pqd")
	t.Parallel()
	node := nodejs.Need(t)
	dir := packed(t, node)
	for _, role := range []string{"consume", "next", "pop"} {
		t.Run(role, func(t *testing.T) {
			killWhileProgramsRun(t, role, 400, cmp.Or(*pqd.Kills, 2), func(p *testenv.Process, nats string, args ...string) *clientProgram {
				return startScript(t, node, p, nats, dir, "load.mjs", args...)
			})
		})
	}
}

// After SIGTERM a worker takes nothing more and finishes what it has begun, although that takes
// longer than a lease.
func TestJavaScriptClientDrains(t *testing.T) {
	nightly.Only(t, "TestNodeWorker stops a worker")
	t.Parallel()
	node := nodejs.Need(t)
	dir := packed(t, node)
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	for i, text := range []string{"a", "b", "c"} {
		pqd.Push(t, nc, "jobs", i, text)
	}
	worker := startScript(t, node, p, p.URL, dir, "drain.mjs", "jobs")
	began := []string{<-worker.lines, <-worker.lines}
	if rest := worker.end(t, true); len(rest) != 3 || rest[2] != "drained" || !strings.HasPrefix(rest[0], "finished ") || !strings.HasPrefix(rest[1], "finished ") {
		t.Errorf("the worker printed %q and, after SIGTERM, %q", began, rest)
	}
	if info := queueInfo(t, nc, "jobs"); info.Ready != 1 || info.Leased+info.Delayed != 0 {
		t.Errorf("left are %+v, expected the third item", info)
	}
	p.Stop(t)
}
