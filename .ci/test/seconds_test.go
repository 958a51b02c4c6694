package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What tests and their programs take is the package's.
func TestSecondsOfAPackage(t *testing.T) {
	text := `package scratch

import (
	"os/exec"
	"testing"
	"time"
)

func TestWorks(t *testing.T) {
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
	}
}

func TestStarts(t *testing.T) {
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
}
`
	code, out, _ := scratch(t, "Works|Starts", text, settings{limit: time.Minute})
	if code != 0 || !strings.Contains(out, "processor: ") || !strings.Contains(out, " s .\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if took := readSeconds(filepath.Join("logs", "seconds"))["."]; took < time.Second {
		t.Errorf("%s of processor, expected more than a second:\n%s", took, out)
	}
}

// A machine that is slower has no package that grew.
func TestSecondsThatGrew(t *testing.T) {
	was := seconds{"a": 10 * time.Second, "b": 20 * time.Second, "c": 30 * time.Second, "small": time.Second}
	file := filepath.Join(t.TempDir(), "a", "seconds")
	if err := was.write(file); err != nil {
		t.Fatal(err)
	}
	was = readSeconds(file)
	for _, c := range []struct {
		name string
		now  seconds
		grew []string
	}{
		{"the same", was, nil},
		{"slower", seconds{"a": 20 * time.Second, "b": 40 * time.Second, "c": 60 * time.Second, "small": 3 * time.Second}, nil},
		{"one", seconds{"a": 20 * time.Second, "b": 20 * time.Second, "c": 30 * time.Second}, []string{"20 s    10 s a"}},
		{"a new one", seconds{"a": 10 * time.Second, "b": 20 * time.Second, "c": 30 * time.Second, "d": 6 * time.Second}, []string{"6 s     0 s d"}},
		{"one on a slower machine", seconds{"a": 60 * time.Second, "b": 40 * time.Second, "c": 60 * time.Second}, []string{"60 s    20 s a"}},
	} {
		var out bytes.Buffer
		c.now.show(&out, was, time.Second)
		var grew []string
		for line := range strings.Lines(out.String()) {
			if found, ok := strings.CutSuffix(strings.TrimSpace(line), " GREW"); ok {
				grew = append(grew, found)
			}
		}
		if strings.Join(grew, ",") != strings.Join(c.grew, ",") {
			t.Errorf("%s: %q grew, expected %q:\n%s", c.name, grew, c.grew, out.String())
		}
	}
}
