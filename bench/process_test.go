package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A child and its child are found, stand still, go on, and end together.
func TestProcessTree(t *testing.T) {
	p, err := launch("shell", filepath.Join(t.TempDir(), "shell"), command{path: "/bin/sh", args: []string{"-c", "sleep 60; exit 0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	state := func(pid int) string {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err != nil {
			return err.Error()
		}
		_, rest, _ := strings.Cut(string(text), "State:")
		return strings.Fields(rest)[0]
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !holds(); {
			if time.Now().After(deadline) {
				t.Fatalf("not within 30s: %s", what)
			}
		}
	}
	eventually("two processes", func() bool { return len(p.pids()) == 2 })
	if bytes, err := p.memory(); err != nil || bytes <= 0 {
		t.Errorf("memory: found %d, %v", bytes, err)
	}
	pids := p.pids()
	p.freeze()
	for _, pid := range pids {
		eventually("stopped", func() bool { return state(pid) == "T" })
	}
	p.thaw()
	for _, pid := range pids {
		eventually("running", func() bool { return state(pid) == "S" })
	}
	p.kill()
	if found := p.pids(); len(found) != 0 {
		t.Errorf("found processes %v after the end, expected none", found)
	}
}
