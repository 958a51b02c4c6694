package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// tested are the tests of a package, one for each way in which a test ends.
const tested = `package scratch

import (
	"fmt"
	"os"
	"testing"
)

func TestPasses(t *testing.T) {}

func TestSkips(t *testing.T) { t.Skip("the moon is full") }

func TestFails(t *testing.T) { t.Error("wrong") }

// once reports whether this is the first run.
func once(t *testing.T) bool {
	_, err := os.Stat(t.Name())
	if err == nil {
		return false
	}
	if err := os.WriteFile(t.Name(), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestFlaky(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		if first { t.Error("it was late") }
	})
}

var first bool

func TestMain(m *testing.M) {
	_, err := os.Stat("ran")
	first = err != nil
	_ = os.WriteFile("ran", nil, 0o666)
	os.Exit(m.Run())
}

func TestRaces(t *testing.T) {
	if first {
		fmt.Println("WARNING: DATA RACE")
		t.Error("race detected during execution of test")
	}
}

func TestLoses(t *testing.T) {
	if first { t.Error("3 items were lost") }
}
`

// scratch makes a module of one package, and runs its tests.
func scratch(t *testing.T, name, text string, s settings, more ...string) (code int, out, flaky string) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{"go.mod": "module scratch\n\ngo 1.26\n", "scratch_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var b bytes.Buffer
	s.out, s.folder, s.flaky = &b, filepath.Join(dir, "logs"), filepath.Join(dir, "flaky")
	code = run(t.Context(), [][]string{slices.Concat([]string{"-vet=off", "-run", name}, more, []string{"."})}, s)
	noted, err := os.ReadFile(s.flaky)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return code, b.String(), string(noted)
}

func TestSecondRun(t *testing.T) {
	for _, c := range []struct {
		run   string
		code  int
		says  []string
		never string
		flaky string
	}{
		{"Passes|Skips", 0, []string{"1 passed, 0 failed, 1 skipped", "skipped: 1 because the moon is full", "ok  \tscratch"}, "AGAIN", ""},
		{"Fails", 1, []string{"=== AGAIN scratch TestFails", "--- FAIL: scratch TestFails (it failed again", "    wrong", "    repeat: go test -count=1 '-run=^TestFails$' -vet=off scratch", "0 passed, 1 failed, 0 skipped"}, "FLAKY", ""},
		{"Flaky", 0, []string{"it was late", "=== AGAIN scratch TestFlaky", "FLAKY: scratch TestFlaky", "1 passed, 0 failed, 0 skipped"}, "FAIL: scratch", "scratch TestFlaky: it was late\n"},
		{"Races", 1, []string{"--- FAIL: scratch TestRaces (a data race"}, "AGAIN", ""},
		{"Loses", 1, []string{"--- FAIL: scratch TestLoses (it may be a broken promise: 3 items were lost"}, "AGAIN", ""},
		{"Flaky|Fails", 1, []string{"FLAKY: scratch TestFlaky", "--- FAIL: scratch TestFails", "1 passed, 1 failed"}, "", "scratch TestFlaky: it was late\n"},
	} {
		t.Run(c.run, func(t *testing.T) {
			code, out, flaky := scratch(t, c.run, tested, settings{limit: time.Minute})
			if code != c.code || !strings.HasSuffix(flaky, c.flaky) || c.flaky == "" && flaky != "" {
				t.Errorf("exit code %d, expected %d; noted %q, expected %q", code, c.code, flaky, c.flaky)
			}
			for _, text := range c.says {
				if !strings.Contains(out, text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if c.never != "" && strings.Contains(out, c.never) {
				t.Errorf("it says %q", c.never)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// More than three flaky tests say that something is wrong with more than a second.
func TestTooManyFlaky(t *testing.T) {
	text := tested
	for _, name := range []string{"A", "B", "C", "D"} {
		text += "\nfunc TestFlaky" + name + "(t *testing.T) { if first { t.Error(\"late\") } }\n"
	}
	code, out, flaky := scratch(t, "Flaky", text, settings{limit: time.Minute})
	if code != 1 || flaky != "" || strings.Count(out, "more than 3 flaky tests") != 4 || strings.Count(out, "(more than 3 others were flaky") != 1 {
		t.Errorf("exit code %d, noted %q:\n%s", code, flaky, out)
	}
}

// What ends the program of tests is red, whichever test it was: a panic, an early exit, a build, a hang, which shows where.
func TestEndsOfPrograms(t *testing.T) {
	hung := patience.Times(3 * time.Second).Round(time.Second) // on a busy machine a test that does nothing may take longer than a second
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"panic": {`func TestA(t *testing.T) { panic("boom") }`, []string{"panic: boom", "--- FAIL: scratch TestA (a panic"}},
		"exit":  {`func TestA(t *testing.T) { os.Exit(0) }`, []string{"--- FAIL: scratch"}},
		"build": {`func TestA(t *testing.T) { x }`, []string{"undefined: x", "--- FAIL: scratch (it does not build"}},
		"again": {
			`var runs int
			 func TestA(t *testing.T) { if runs++; runs == 2 { t.Error("3 items were lost") } }`,
			[]string{"3 items were lost", "--- FAIL: scratch TestA (it may be a broken promise"},
		},
		"hang": {
			`func TestA(t *testing.T) { t.Parallel(); t.Run("part", func(t *testing.T) { select {} }) }
			 func TestB(t *testing.T) { t.Parallel(); os.Getpid() }
			 func hold(c chan int) { <-c }
			 func init() { go hold(make(chan int)) }`,
			[]string{fmt.Sprintf("TestA/part runs for more than %s: SIGQUIT to [", hung), "SIGQUIT: quit", "scratch.hold", "--- FAIL: scratch TestA (it hung in TestA/part"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := "package scratch\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n" + c.text + "\n"
			limit := time.Minute
			if name == "hang" {
				limit = hung
			}
			code, out, _ := scratch(t, ".", text, settings{limit: limit}, "-count=2")
			for _, text := range c.says {
				if code != 1 || !strings.Contains(out, text) || strings.Contains(out, "AGAIN") {
					t.Errorf("exit code %d, expected 1, %q and no second run:\n%s", code, text, out)
				}
			}
		})
	}
}

// A random test repeats what it did. What chooses packages, or tests, is that of the failed test alone.
func TestSecondRunIsOfOneTest(t *testing.T) {
	f := failure{pkg: "p/q", name: "TestX", seed: "7", args: []string{"-short", "-race", "-p", "4", "-parallel", "8", "-run", "A|B", "-skip=C", "-tags", "fdb", "-count", "1", "-cpu", "1,8", "./q", "./..."}}
	if got, want := strings.Join(alone(f), " "), "-count=1 -run=^TestX$ -short -race -parallel 8 -tags fdb -cpu 1,8 p/q -args -pq.seed=7"; got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	t.Setenv("PQ_TEST", "nightly")
	t.Setenv("PQ_TEST_ENGINE", "fdb")
	if got, want := f.repeat(), "PQ_TEST=nightly PQ_TEST_ENGINE=fdb go test -count=1 '-run=^TestX$' -short -race"; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nexpected\n%s …", got, want)
	}
}

func TestSerious(t *testing.T) {
	for text, want := range map[string]bool{
		"    a_test.go:7: after 1m0s it was not true yet that it is ready\n":                      false,
		"    a_test.go:7: pqd logged:\n        connection lost\n":                                 false,
		"    a_test.go:7: pqd logged:\n        panic: boom\n":                                     true,
		"    a_test.go:7: pqd logged:\n        WARNING: DATA RACE\n":                              true,
		"    a_test.go:7: item 12 came twice\n":                                                   true,
		"    a_test.go:7: no order of these operations explains the answers: x\n":                 true,
		"    store.go:40: check the store: queue \"a\": 3 items, and 4 are counted\n":             true,
		"    a_test.go:7: seed 9, round 3: got a\n":                                               true,
		"    a_test.go:7: repeat with -run '^TestRandom$' -pq.seed=9\n    a_test.go:8: it is 7\n": false,
	} {
		if got := serious(text); (got != "") != want {
			t.Errorf("%q: %q, expected %t", text, got, want)
		}
	}
}
