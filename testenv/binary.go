package testenv

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const module = "github.com/pqbridge/pqbridge/"

// binaries is the directory of the programs under test. Main makes it.
var binaries string

// given is a directory with the programs, if the caller of the tests has built them for all packages.
var given string

// buildLimit bounds the build of a program on a machine that builds others, too, with an empty cache.
const buildLimit = 15 * time.Minute

// Main runs the tests of a package that uses [Daemon] or [Run]. Its TestMain
// is one line: os.Exit(testenv.Main(m)).
func Main(m *testing.M) int {
	asTool(os.Args)
	showOnQuit()
	dir, err := os.MkdirTemp("", "pqbridge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	// The variable has a checksum behind the folder: go test takes a result from its cache only if the variable has
	// not changed.
	given, _, _ = strings.Cut(os.Getenv("PQ_TEST_PROGRAMS"), string(os.PathListSeparator))
	if given == "" {
		if err := lookAtSources(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return RunBeside(m)
}

// lookAtSources looks at each file that programs under test are built from, or that others run. go test notes which
// files a test looks at, and takes no result from its cache if one has changed.
func lookAtSources() error {
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return errors.New("testenv: there is no go.mod above the tests")
		}
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "target", "bin", "dist", "__pycache__"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() {
			_, err = os.Stat(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // another test has removed a file of its own
		}
		return err
	})
}

// programs are the programs that tests of this process have asked for, by their directories or names. Each is built once: a
// program that runs cannot be written.
var programs sync.Map

// built is the path of a program of this repository.
func built(dir string) (string, error) {
	return once(dir, func() (string, error) { return build(dir) })
}

func once(name string, build func() (string, error)) (string, error) {
	path, _ := programs.LoadOrStore(name, sync.OnceValues(build))
	return path.(func() (string, error))()
}

// Build builds a program of this repository and returns its path. go test -short leaves out the tests that need one.
func Build(t testing.TB, dir string) string {
	t.Helper()
	return use(t, func() (string, error) { return built(dir) })
}

// BuildAs builds a program under another name, with flags of go build that change it.
func BuildAs(t testing.TB, name, dir string, flags func() ([]string, error)) string {
	t.Helper()
	return use(t, func() (string, error) {
		return once(name, func() (string, error) {
			more, err := flags()
			if err != nil {
				return "", err
			}
			return link(dir, name, more...)
		})
	})
}

func use(t testing.TB, build func() (string, error)) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a program, which -short leaves out")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds a program, unless the caller of the tests has.
func build(dir string) (string, error) {
	if given != "" { // go test would note a look at the file, which each build writes anew
		return filepath.Join(given, filepath.Base(dir)), nil
	}
	return link(dir, filepath.Base(dir))
}

// link builds a program, with the race detector if the tests have it. go run keeps linked programs in its cache,
// unlike go build, so only one package links a program that the tests of several need.
func link(dir, name string, flags ...string) (string, error) {
	if binaries == "" {
		return "", errors.New("this package's TestMain does not call testenv.Main")
	}
	program := filepath.Join(binaries, name)
	args := append([]string{"run", "-exec", "cp"}, flags...)
	if raceDetector {
		args = append(args, "-race")
	}
	if buildTags != "" {
		args = append(args, "-tags", buildTags)
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", append(args, module+dir, program)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", dir, err, out)
	}
	return program, nil
}

// environment is the environment of programs under test. It leaves out the variables about
// NATS and tracing of the developer's shell.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PQ_") && !strings.HasPrefix(entry, "NATS_") && !strings.HasPrefix(entry, "OTEL_") {
			env = append(env, entry)
		}
	}
	if raceDetector {
		env = append(env, "GORACE=atexit_sleep_ms=0") // or every end takes a second
	}
	return env
}

// command prepares pqd, or another program in its place, with these settings and no others.
func command(t testing.TB, program string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if program == "" {
		program = Build(t, "cmd/pqd")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(environment(), env...)
	return cmd
}

// Run runs pqd and waits until it ends by itself.
func Run(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return RunOf(t, "", env, args...)
}

// RunOf is Run with another program; "": pqd of this repository.
func RunOf(t testing.TB, program string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, program, env, args...)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Start()
	if err == nil {
		stop := timeout(cmd)
		err = cmd.Wait()
		stop()
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("run pqd: %v", err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// beside is how many tests of a package run at the same time. Most of their time they wait for servers, disks and clocks.
const beside = "8"

// RunBeside runs the tests of a package that wait more than they compute: as many at once as the gate runs, also on a machine with
// fewer processors, unless -parallel says how many.
func RunBeside(m *testing.M) int {
	if !flag.Parsed() {
		flag.Parse()
	}
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", beside); err != nil {
			panic(err) // there is no such flag any more
		}
	}
	return m.Run()
}

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
