// Command test runs go test as the gate does: groups of packages one after another, failures as soon
// as they are there and again at the end, and a second run for those that may have been the machine's.
//
//	go run ./.ci/test -- ./... -- -race ./bridge/...
//
// What stands behind each -- is the arguments of a go test. Where -programs is the first of them, the programs that
// tests start are built before, once for all packages. The first run of everything comes first. Then
// each failed test runs again, alone. A test that passes then is flaky: the run is green, and its last
// lines name the test. No second run is for a data race, a panic, a test that did not end, and a broken
// promise, such as a lost item: those are red however rare they are. So are more than three flaky tests.
//
// A test that runs for longer than -limit gets SIGQUIT: it prints its goroutines, and those of its pqd. On a busy machine
// the limit is longer, by as much as programs there wait for a processor.
//
// A run ends with the processor seconds of packages, and leaves them in <folder>/seconds.
//
// A run with a -suite ends with one line about it: how many tests of how many packages there were or, when
// -most is over, which packages were not tested. Those are a failure with -whole alone. A test that failed always is.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxFlaky is how many flaky tests a green run may have.
const maxFlaky = 3

func main() {
	limit := flag.Duration("limit", 5*time.Minute, "how long one test may run on a quiet machine")
	folder := flag.String("folder", "bin/test", "where the programs under test and the logs of failed tests go")
	programs := flag.String("programs", "./cmd/pq ./cmd/pqd ./examples/worker ./examples/llm/gateway ./examples/llm/provider", "the programs that tests start")
	flakyFile := flag.String("flaky", ".ci/flaky", "list of the tests that were flaky")
	var of suite
	flag.StringVar(&of.name, "suite", "", "what the last line of the output is about")
	flag.DurationVar(&of.most, "most", 0, "how long a suite may run; 0: for as long as it takes")
	flag.BoolVar(&of.whole, "whole", false, "a package of the suite that was not tested is a failure")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: test [flags] -- arguments of go test [-- of another one]...")
		flag.PrintDefaults()
	}
	flag.Parse()
	groups := split(flag.Args())
	if len(groups) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	if of.most > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, of.most)
		defer stop()
	}
	os.Exit(run(ctx, groups, settings{
		out: os.Stdout, limit: *limit, folder: *folder, flaky: *flakyFile, suite: of,
		programs: strings.Fields(*programs),
	}))
}

type settings struct {
	out      io.Writer
	limit    time.Duration
	folder   string
	flaky    string
	programs []string // that tests start
	suite    suite
}

// split parts arguments at each --. flag.Parse has taken the first one.
func split(args []string) (groups [][]string) {
	for len(args) > 0 {
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		if end > 0 {
			groups = append(groups, args[:end])
		}
		args = args[min(end+1, len(args)):]
	}
	return groups
}

// run runs the groups, until ctx ends, and returns the exit code.
func run(ctx context.Context, groups [][]string, s settings) int {
	s.out = &sharedWriter{to: s.out}
	showFlaky(s.out, s.flaky)
	began := time.Now()
	sum := &summary{out: s.out, skipped: make(map[string]int), seconds: make(seconds)}
	var again []failure
	for _, args := range groups {
		failed, err := first(ctx, args, s, sum)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(s.out, "test:", err)
			return 1
		}
		again = append(again, failed...)
	}
	var flaky []failure
	for _, f := range again {
		switch {
		case f.serious != "":
		case ctx.Err() != nil:
			f.serious = "no time was left for a second run"
		case len(flaky) > maxFlaky:
			f.serious = fmt.Sprintf("more than %d others were flaky", maxFlaky)
		default:
			fmt.Fprintf(s.out, "=== AGAIN %s %s\n", f.pkg, f.name)
			passed, err := second(ctx, f, s)
			if err != nil {
				fmt.Fprintln(s.out, "test:", err)
			}
			if passed && err == nil {
				flaky = append(flaky, f)
				continue
			}
			f.serious = "it failed again"
		}
		sum.red = append(sum.red, f)
	}
	if len(flaky) > maxFlaky {
		for _, f := range flaky {
			f.serious = fmt.Sprintf("it is one of more than %d flaky tests", maxFlaky)
			sum.red = append(sum.red, f)
		}
		flaky = nil
	}
	if err := noteFlaky(s.flaky, flaky, time.Now()); err != nil {
		fmt.Fprintln(s.out, "test:", err)
	}
	code := sum.show(flaky, time.Since(began))
	if err := sum.seconds.write(filepath.Join(s.folder, "seconds")); err != nil {
		fmt.Fprintln(s.out, "test:", err)
	}
	if s.suite.name == "" {
		return code
	}
	left, err := s.suite.show(s.out, groups, sum, len(flaky))
	switch {
	case err != nil:
		fmt.Fprintln(s.out, "test:", err)
		return 1
	case left > 0 && s.suite.whole:
		return 1
	}
	return code
}

// first is the first run of a group.
func first(ctx context.Context, args []string, s settings, sum *summary) ([]failure, error) {
	var env []string
	if args[0] == "-programs" {
		var err error
		if env, err = prepare(ctx, args[1:], s); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	r := newRecorder(s.out, s.folder)
	cpu, err := goTest(ctx, args, env, s.limit, r)
	sum.add(r, cpu)
	for i := range r.failures {
		r.failures[i].args, r.failures[i].env = args, env
	}
	if err != nil && len(r.failures) == 0 {
		return nil, fmt.Errorf("go test failed, and no test did: %w", err)
	}
	return r.failures, nil
}

// second runs a failed test again, alone.
func second(ctx context.Context, f failure, s settings) (passed bool, err error) {
	r := newRecorder(s.out, s.folder)
	_, err = goTest(ctx, alone(f), f.env, s.limit, r)
	if err != nil && len(r.failures) > 0 {
		err = nil
	}
	return len(r.failures) == 0 && r.ended(f.pkg, f.name) == "pass", err
}

// alone are the arguments for one test of those for all. A random test repeats what it did.
func alone(f failure) []string {
	args := []string{"-count=1", "-run=^" + f.name + "$"}
	for i := 0; i < len(f.args); i++ {
		switch a := f.args[i]; {
		case isPackage(a):
		case takesValue(a):
			if i++; !isChoice(a) && i < len(f.args) {
				args = append(args, a, f.args[i])
			}
		case !isChoice(a):
			args = append(args, a)
		}
	}
	args = append(args, f.pkg)
	if f.seed != "" {
		args = append(args, "-args", "-pq.seed="+f.seed)
	}
	return args
}

// repeat is the command that runs a failed test again, with its seed.
func (f *failure) repeat() string {
	var words []string
	for _, name := range []string{"PQ_TEST", "PQ_TEST_ENGINE"} { // which tests run, and on what
		if value := os.Getenv(name); value != "" {
			words = append(words, name+"="+value)
		}
	}
	words = append(words, "go", "test")
	for _, arg := range alone(*f) {
		if strings.ContainsAny(arg, " $^()|*'\"") || arg == "" {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// sharedWriter is written to by go test, and by those who follow it.
type sharedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *sharedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
