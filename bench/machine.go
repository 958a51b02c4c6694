package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// machine is where the measurements were taken.
type machine struct {
	Processor string
	Cores     int
	Memory    int64
	Kernel    string
	Disk      string // file system and device
	Go        string
	Versions  map[string]string // of the peers' packages
	Commit    string
	Began     time.Time
	Load      string // average, when it began
	Took      time.Duration
}

func describe(ctx context.Context, dir string) machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Began: time.Now(), Versions: make(map[string]string)}
	m.Processor = cmp.Or(field("/proc/cpuinfo", "model name"), runtime.GOARCH)
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	m.Kernel = output(ctx, "uname", "-sr")
	m.Disk = strings.Join(strings.Fields(output(ctx, "findmnt", "-no", "FSTYPE,SOURCE,OPTIONS", "-T", dir)), " ")
	m.Commit = output(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10")
	for _, s := range systems {
		if s.pack != "" && !s.missing() {
			m.Versions[s.pack] = output(ctx, "dpkg-query", "-W", "-f", "${Version}", s.pack)
		}
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range build.Deps {
			if dep.Path == "github.com/nats-io/nats-server/v2" {
				m.Versions["nats-server"] = dep.Version
			}
		}
	}
	return m
}

// output of a command, or "unknown": a description is no reason to fail.
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// field is the value of a line "name: value".
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m *machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, %s, %s; %s; load average %s when it began",
		m.Processor, m.Cores, size(m.Memory), m.Kernel, m.Disk, m.Go, m.Load)
}
