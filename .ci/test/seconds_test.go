package main

import (
	"fmt"
	"os"
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
	code, out, _ := scratch(t, "Works|Starts", text, settings{limit: time.Minute}, "-count=1")
	if code != 0 || !strings.Contains(out, "processor: ") || !strings.Contains(out, " s .\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	left, err := os.ReadFile(filepath.Join("logs", "seconds"))
	if err != nil {
		t.Fatal(err)
	}
	var took int
	if n, err := fmt.Sscanf(string(left), "%d .\n", &took); n != 1 || took < 1 {
		t.Errorf("%q (%v), expected a second of processor or more:\n%s", left, err, out)
	}
}
