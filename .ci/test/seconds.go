package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

const (
	lookEach = 500 * time.Millisecond
	// shownSeconds is how many packages the table of seconds has.
	shownSeconds = 12
)

// seconds is the processor time of the tests of each package, by its folder, with that of all programs that they start.
type seconds map[string]time.Duration

func (s seconds) add(other seconds) {
	for folder, d := range other {
		s[folder] += d
	}
}

func (s seconds) sum() (all time.Duration) {
	for _, d := range s {
		all += d
	}
	return all
}

// follow looks at the programs of tests below a go test until it ends. The last moment of each is not seen, nor
// anything where the system has no /proc.
func follow(goTest int, ended <-chan struct{}) seconds {
	found := make(map[int]seconds) // of each program of tests
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			all := make(seconds)
			for _, one := range found {
				all.add(one)
			}
			return all
		case <-tick.C:
			all := patience.Processes()
			parents := patience.ParentsOf(all)
			for pid, p := range all {
				if p.Parent != goTest || !isTest(pid) {
					continue
				}
				if found[pid] == nil { // a test may change the folder later
					folder, err := folderOf(pid)
					if err != nil {
						continue
					}
					found[pid] = seconds{folder: 0}
				}
				for folder, took := range found[pid] {
					found[pid][folder] = max(took, tree(pid, all, parents))
				}
			}
		}
	}
}

// folderOf is the folder of the package that a program tests.
func folderOf(pid int) (string, error) {
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Rel(here, dir)
}

// tree is the time of a process and of all below it.
func tree(top int, all map[int]patience.Process, parents map[int]int) time.Duration {
	took := all[top].Took
	for pid, p := range all {
		if isBelow(pid, top, parents) {
			took += p.Took
		}
	}
	return took
}

// write leaves a line for each package.
func (s seconds) write(file string) error {
	var text []byte
	for _, folder := range slices.Sorted(maps.Keys(s)) {
		text = fmt.Appendf(text, "%.0f %s\n", s[folder].Seconds(), folder)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}

// show prints the packages that take the most.
func (s seconds) show(out io.Writer, rest time.Duration) {
	if len(s) == 0 {
		return
	}
	fmt.Fprintf(out, "processor: %.0f s of tests, %.0f s of building\n", s.sum().Seconds(), rest.Seconds())
	folders := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b))
	})
	for _, folder := range folders[:min(shownSeconds, len(folders))] {
		fmt.Fprintf(out, "%6.0f s %s\n", s[folder].Seconds(), folder)
	}
}
