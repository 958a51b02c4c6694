package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// suiteOf makes a module of packages a, b and so on, each with one file of tests, and runs them as a suite.
func suiteOf(t *testing.T, ctx context.Context, s suite, texts ...string) (code int, lines []string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module scratch\n\ngo 1.26\n"}
	args := []string{"-vet=off", "-p", "1"}
	for i, text := range texts {
		name := string(rune('a' + i))
		files[name+"/x_test.go"] = "package " + name + "\n\n" + text
		args = append(args, "./"+name)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out bytes.Buffer
	code = run(ctx, [][]string{args}, settings{out: &out, limit: time.Minute, folder: filepath.Join(dir, "logs"), flaky: filepath.Join(dir, "flaky"), suite: s})
	t.Log(out.String())
	return code, strings.Split(strings.TrimSpace(out.String()), "\n")
}

const (
	twoPass = `import "testing"

func TestOne(t *testing.T) {}

func TestTwo(t *testing.T) { t.Run("part", func(t *testing.T) {}) }

func TestThree(t *testing.T) { t.Skip("the moon is full") }
`
	onePassesOneFails = `import "testing"

func TestOne(t *testing.T) {}

func TestTwo(t *testing.T) { t.Error("wrong") }
`
	// hangs opens the other end of a pipe, as a program does that it starts, and never ends.
	hangs = `import (
	"os"
	"os/exec"
	"testing"
)

func TestHangs(t *testing.T) {
	pipe, err := os.OpenFile("../pipe", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command("cat")
	program.Stdout = pipe
	if _, err := program.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	pipe.Write([]byte("x"))
	program.Wait()
}
`
)

// The last line says how much was tested, and whether it failed.
func TestSuite(t *testing.T) {
	for _, c := range []struct {
		texts []string
		code  int
		last  string
	}{
		{[]string{twoPass, twoPass}, 0, "ENGINE: 4 tests of 2 packages"},
		{[]string{twoPass, onePassesOneFails}, 1, "ENGINE: 4 tests of 2 packages, 1 FAILED"},
		{[]string{twoPass, "this is no Go"}, 1, "ENGINE: 3 tests of 2 packages, 1 FAILED"},
	} {
		code, lines := suiteOf(t, t.Context(), suite{name: "ENGINE", most: time.Hour, whole: true}, c.texts...)
		if last := lines[len(lines)-1]; code != c.code || last != c.last {
			t.Errorf("exit code %d and %q, expected %d and %q", code, last, c.code, c.last)
		}
	}
}

// When the time is over, what runs is ended, with the programs that it has started. What was not tested is said, and
// is a failure where the whole is asked for. A test that has failed is one always.
func TestSuiteOutOfTime(t *testing.T) {
	for name, c := range map[string]struct {
		first string
		whole bool
		code  int
		last  string
	}{
		"gate":   {twoPass, false, 0, "ENGINE: STOPPED AFTER 15m: scratch/b and scratch/c NOT TESTED"},
		"night":  {twoPass, true, 1, "ENGINE: STOPPED AFTER 15m: scratch/b and scratch/c NOT TESTED"},
		"failed": {onePassesOneFails, false, 1, "ENGINE: STOPPED AFTER 15m: scratch/b and scratch/c NOT TESTED, 1 FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			read := make(chan error, 1)
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			go func() {
				f, err := os.Open(pipe) // waits for the program
				if err == nil {
					defer f.Close()
					_, err = f.Read(make([]byte, 1))
					stop()
				}
				if err == nil {
					_, err = io.ReadAll(f) // waits for the end of all that have it
				}
				read <- err
			}()
			hangs := strings.ReplaceAll(hangs, "../pipe", pipe)
			code, lines := suiteOf(t, ctx, suite{name: "ENGINE", most: 15 * time.Minute, whole: c.whole}, c.first, hangs, twoPass)
			if last := lines[len(lines)-1]; code != c.code || last != c.last {
				t.Errorf("exit code %d and %q, expected %d and %q", code, last, c.code, c.last)
			}
			if why := "(no time was left for a second run; "; name == "failed" && !strings.Contains(strings.Join(lines, "\n"), why) {
				t.Errorf("it does not say %q", why)
			}
			if err := <-read; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSuiteInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{15 * time.Minute: "15m", time.Hour: "1h0m", 90 * time.Second: "1m30s", 10 * time.Second: "10s"} {
		if got := inWords(d); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
	for words, want := range map[string]string{"a": "a", "a b": "a and b", "a b c": "a, b and c"} {
		if got := listed(strings.Fields(words)); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}
