// Package clock has a pqd whose wall clock a test sets while it runs. A Go program asks the kernel for the time without the C
// library, so nothing outside of it can lie to it: this pqd has a package time of its own, made of that of the Go
// that builds it. Its monotonic clock goes on, as it does on a machine whose wall clock is set.
package clock

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/overlay"
	"github.com/pqbridge/pqbridge/testenv"
)

// What package time has besides, and what has pqd move its clock.
var (
	//go:embed testdata/time.go
	ofTime []byte
	//go:embed testdata/pqd.go
	ofPqd []byte
)

// time.Now begins with these lines. The one between them moves its wall clock.
const (
	asksRuntime = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	moves       = "\tsec, nsec = moved(sec, nsec)\n"
	goesOn      = "\tif mono == 0 {\n"
)

// Program is pqd with a wall clock of its own for each process that has [File] in its environment.
func Program(t testing.TB) string {
	t.Helper()
	return overlay.Program(t, "pqd-moved", overlay.Change{
		Package: "time", File: "time.go", Edits: map[string]string{asksRuntime + goesOn: asksRuntime + moves + goesOn}, Added: ofTime, Pqd: ofPqd,
	})
}

// variable has the path of the files that say how far clocks are from the machine's. Nodes, which all have the same
// environment, have one each, by their names.
const variable = "CLOCK_FILE"

// File is the setting of processes whose clocks a test sets. They are right at first.
func File(t testing.TB) string {
	t.Helper()
	return variable + "=" + filepath.Join(t.TempDir(), "clock")
}

// sets numbers the jumps, so that the log of a process tells one from another.
var sets atomic.Int64

// Set has the wall clock of a process differ from the machine's, and returns when it does. The clock stays so when the
// process starts again.
func Set(t testing.TB, p *testenv.Process, by time.Duration) {
	t.Helper()
	number := sets.Add(1)
	overlay.Tell(t, p, p.Setting(variable)+p.Setting("PQ_NODE"), fmt.Sprint(by, " ", number), fmt.Sprintf(`"clock":"%d"`, number))
}
