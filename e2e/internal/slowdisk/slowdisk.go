// Package slowdisk has a pqd whose disk a test makes slow while it runs. Its package syscall returns later from what has synced a
// file: the syncs of the store's logs and tables, and the writes of the NATS server, each of which is one. So all that waits for a disk
// waits, also for a lock that is held meanwhile.
package slowdisk

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

// What package syscall has besides, and what has pqd slow its disk down.
var (
	//go:embed testdata/syscall.go
	ofSyscall []byte
	//go:embed testdata/pqd.go
	ofPqd []byte
)

// These lines are in syscall.Syscall and Syscall6, whose callers are the scheduler's again behind them.
const (
	three = "\tr1, r2, err = RawSyscall6(trap, a1, a2, a3, 0, 0, 0)\n\truntime_exitsyscall()\n"
	six   = "\tr1, r2, err = RawSyscall6(trap, a1, a2, a3, a4, a5, a6)\n\truntime_exitsyscall()\n"
	slows = "\tslow(trap, a1)\n"
)

// Program is pqd with a disk of its own for each process that has [File] in its environment.
func Program(t testing.TB) string {
	t.Helper()
	return overlay.Program(t, "pqd-slow", overlay.Change{
		Package: "syscall", File: "syscall_linux.go", Edits: map[string]string{three: three + slows, six: six + slows}, Added: ofSyscall, Pqd: ofPqd,
	})
}

// variable has the path of the files that say how slow disks are. Nodes, which all have the same environment, have one
// each, by their names.
const variable = "SLOWDISK_FILE"

// File is the setting of processes whose disks a test slows down. They are as fast as the machine's at first.
func File(t testing.TB) string {
	t.Helper()
	return variable + "=" + filepath.Join(t.TempDir(), "disk")
}

// sets numbers the changes, so that the log of a process tells one from another.
var sets atomic.Int64

// Set has each sync of a process take longer, by any time in between, and returns when it does.
func Set(t testing.TB, p *testenv.Process, least, most time.Duration) {
	t.Helper()
	number := sets.Add(1)
	overlay.Tell(t, p, p.Setting(variable)+p.Setting("PQ_NODE"), fmt.Sprintln(int64(least), int64(most), number), fmt.Sprintf(`"disk":"%d"`, number))
}
