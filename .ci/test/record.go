package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is what go test -json says.
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// failure is a test that failed, or a package whose test has no name: its build or its TestMain failed,
// or it ended without saying so of each test.
type failure struct {
	pkg, name string
	text      string // what it printed
	log       string // the file that has all of it
	serious   string // why it is red without a second run; empty: it may have one
	seed      string // of a random test that takes one
	args, env []string
}

func (f *failure) String() string {
	name := strings.TrimPrefix(f.pkg, module)
	if f.name != "" {
		name += " " + f.name
	}
	return name
}

const module = "github.com/pqbridge/pqbridge/"

// maxOutput bounds what is kept of one test, and maxShown what of it is printed.
const (
	maxOutput = 8 << 20
	maxShown  = 96 << 10
)

// recorder follows the events of one go test.
type recorder struct {
	out    io.Writer
	folder string

	mu       sync.Mutex
	packages map[string]*packageRun
	failures []failure
	slow     []timed
	skipped  map[string]int // by why
	passed   int
	done     []string // packages that were tested to the end
	tested   int      // packages that have tests
	cached   int      // of them, those whose result go test remembered
	seconds  seconds
}

type timed struct {
	what string
	took float64
}

type packageRun struct {
	tests  map[string]*testRun
	output bytes.Buffer // of no test
	killed string       // the test that watch has ended it for
}

type testRun struct {
	since   time.Time // it has run since then; zero: it waits for its turn, or has ended
	outcome string    // pass, fail, skip; empty: it has not ended
	passed  bool      // as it has printed; go test says so later
	output  bytes.Buffer
	top     *testRun
}

func newRecorder(out io.Writer, folder string) *recorder {
	return &recorder{out: out, folder: folder, packages: make(map[string]*packageRun), skipped: make(map[string]int)}
}

func top(name string) string {
	name, _, _ = strings.Cut(name, "/")
	return name
}

func (r *recorder) pkg(name string) *packageRun {
	p := r.packages[name]
	if p == nil {
		p = &packageRun{tests: make(map[string]*testRun)}
		r.packages[name] = p
	}
	return p
}

func (p *packageRun) test(name string) *testRun {
	t := p.tests[name]
	if t == nil {
		t = &testRun{}
		t.top = t
		if over := top(name); over != name {
			t.top = p.test(over)
		}
		p.tests[name] = t
	}
	return t
}

// ended is how a test ended.
func (r *recorder) ended(pkg, name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pkg(pkg).test(name).outcome
}

// take takes an event.
func (r *recorder) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.pkg(e.Package)
	if e.Test == "" {
		r.takePackage(p, e)
		return
	}
	t := p.test(e.Test)
	switch e.Action {
	case "run":
		t.since, t.passed, t.outcome = e.Time, false, "" // -count and -cpu run it more than once
	case "cont":
		t.since = e.Time
	case "pause":
		t.since = time.Time{}
	case "output":
		to := &t.top.output
		if t.top.passed {
			to = &p.output // go test takes what the program prints for that of the test that ended last
		}
		t.passed = t.passed || strings.HasPrefix(e.Output, "--- PASS: ")
		if to.Len() < maxOutput && !isChatter(e.Output) {
			to.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		t.since, t.outcome = time.Time{}, e.Action
		if t.top == t {
			r.ends(e, t)
		}
	}
}

var chatter = regexp.MustCompile(`^\s*(=== (RUN|PAUSE|CONT|NAME)|--- PASS)`)

func isChatter(line string) bool { return chatter.MatchString(line) }

// ends notes the end of a test that is no part of another one.
func (r *recorder) ends(e event, t *testRun) {
	r.slow = append(r.slow, timed{strings.TrimPrefix(e.Package, module) + " " + e.Test, e.Elapsed})
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped[reason(t.output.String())]++
	case "fail":
		r.fails(failure{pkg: e.Package, name: e.Test, text: t.output.String()})
	}
	t.output = bytes.Buffer{}
}

// reason is why a test says it was skipped. Those that are left to the night, or to a campaign, are one kind each.
func reason(output string) string {
	why := "it does not say why"
	for line := range strings.Lines(output) {
		if m := message.FindStringSubmatch(line); m != nil {
			why = strings.TrimSpace(m[1])
		}
	}
	switch {
	case strings.HasPrefix(why, "nightly: "):
		return "make nightly runs it"
	case strings.HasPrefix(why, "no -pq."):
		return "it is part of a campaign"
	}
	return why
}

func (r *recorder) takePackage(p *packageRun, e event) {
	switch e.Action {
	case "pass", "fail":
		r.tested++
		fallthrough
	case "skip":
		r.done = append(r.done, e.Package)
	}
	switch e.Action {
	case "output":
		switch {
		case strings.HasPrefix(e.Output, "ok "):
			if strings.Contains(e.Output, "\t(cached)") {
				r.cached++
			}
			fmt.Fprint(r.out, e.Output)
		case e.Output == "PASS\n" || e.Output == "FAIL\n" || strings.HasPrefix(e.Output, "? ") || strings.HasPrefix(e.Output, "FAIL\t"):
		case p.output.Len() < maxOutput:
			p.output.WriteString(e.Output)
		}
	case "fail":
		r.packageFails(p, e)
	}
}

// packageFails finds out why a package failed where no test says so.
func (r *recorder) packageFails(p *packageRun, e event) {
	var open []string
	failed := false
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		switch t := p.tests[name]; {
		case t.outcome == "fail":
			failed = true
		case t.outcome == "" && t.top == t:
			open = append(open, name)
		}
	}
	switch {
	case e.FailedBuild != "":
		r.fails(failure{pkg: e.Package, text: "FAIL\t" + e.Package + " [build failed]\n", serious: "it does not build"})
	case len(open) > 0:
		text := p.output.String()
		for _, name := range open {
			if p.tests[name].output.Len() > 0 {
				text += fmt.Sprintf("%s had not ended, and had printed:\n%s", name, p.tests[name].output.String())
			}
		}
		why := "it ended before its tests had"
		if p.killed != "" {
			why = "it hung in " + p.killed
		}
		name := ""
		if len(open) == 1 {
			name = open[0]
		}
		r.fails(failure{pkg: e.Package, name: name, text: text, serious: why})
	case !failed || p.output.Len() > 0 && serious(p.output.String()) != "":
		r.fails(failure{pkg: e.Package, text: p.output.String(), serious: "no test of it says why"})
	}
	fmt.Fprintf(r.out, "FAIL\t%s\t%.1fs\n", e.Package, e.Elapsed)
}

// fails prints a failure.
func (r *recorder) fails(f failure) {
	if f.serious == "" {
		f.serious = serious(f.text)
	}
	if m := seed.FindStringSubmatch(f.text); m != nil {
		f.seed = m[1]
	}
	f.log = r.keep(f)
	r.failures = append(r.failures, f)
	fmt.Fprintf(r.out, "%s\n%s", f.String(), shown(f.text))
}

// shown is a text, without its middle where it is long.
func shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown/2] + "\n[...]\n" + text[len(text)-maxShown/2:]
}

// keep writes what a test printed to a file.
func (r *recorder) keep(f failure) string {
	dir := filepath.Join(r.folder, "failed")
	file := filepath.Join(dir, strings.NewReplacer("/", "_", " ", ".").Replace(f.String())+".log")
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = os.WriteFile(file, []byte(f.text), 0o666)
	}
	if err != nil {
		return err.Error()
	}
	return file
}

var (
	// message is a line that a test printed by its t.Error and the like.
	message = regexp.MustCompile(`^\s+[\w./-]+\.(?:go|mjs|js|ts|py):\d+: (.*)`)
	seed    = regexp.MustCompile(`-pq\.seed=(\d+)`)
	crash   = regexp.MustCompile(`(?m)^\s*(panic: |fatal error: |SIGQUIT: |.*panic: test timed out)`)
	promise = regexp.MustCompile(`(?i)\b(lost|doubled|twice|passed over|linearizable|no order of these operations|findings|check the store|damaged?|out of order|seed \d+)\b`)
)

// serious is why what a test printed is red without a second run.
func serious(text string) string {
	switch {
	case strings.Contains(text, "WARNING: DATA RACE") || strings.Contains(text, "race detected during execution"):
		return "a data race"
	case crash.MatchString(text):
		return "a panic, or a test that did not end"
	}
	for line := range strings.Lines(text) {
		m := message.FindStringSubmatch(line)
		if m != nil && !seed.MatchString(line) && promise.MatchString(m[1]) {
			return "it may be a broken promise: " + strings.TrimSpace(m[1])
		}
	}
	return ""
}

// running is a test that runs now, and is not only there for its parts.
type running struct {
	pkg, name string
	since     time.Time
}

// longest is the test that has run for longest. Tests that wait for their turn do not run.
func (r *recorder) longest() (found running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pkg, p := range r.packages {
		if p.killed != "" {
			continue
		}
		parents := make(map[string]bool)
		for name, t := range p.tests {
			for at := strings.LastIndexByte(name, '/'); at >= 0 && t.outcome == ""; at = strings.LastIndexByte(name[:at], '/') {
				parents[name[:at]] = true
			}
		}
		for name, t := range p.tests {
			if t.outcome == "" && !t.since.IsZero() && !parents[name] && (found.pkg == "" || t.since.Before(found.since)) {
				found = running{pkg, name, t.since}
			}
		}
	}
	return found
}

// kills notes that the program of a package is about to be ended for a test that runs too long.
func (r *recorder) kills(t running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pkg(t.pkg).killed = t.name
}
