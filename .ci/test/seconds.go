package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

const (
	lookEach = 500 * time.Millisecond
	// shownSeconds is how many packages the table of seconds has, besides those that grew.
	shownSeconds = 12
	// A package grew if it takes so much more than it did, and so many seconds.
	grewBy, grewAtLeast = 1.25, 5
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

// readSeconds reads what write has written. There may be no such file.
func readSeconds(file string) seconds {
	s := make(seconds)
	text, err := os.ReadFile(file)
	if err != nil {
		return s
	}
	for line := range strings.Lines(string(text)) {
		took, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(took); err == nil {
			s[folder] = time.Duration(n) * time.Second
		}
	}
	return s
}

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

// slower is how much more time this machine takes than that of an earlier table: the middle of all packages'.
func (s seconds) slower(was seconds) float64 {
	var ratios []float64
	for folder, took := range s {
		if before := was[folder]; before.Seconds() >= grewAtLeast {
			ratios = append(ratios, took.Seconds()/before.Seconds())
		}
	}
	if len(ratios) < 3 {
		return 1
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// show prints the packages that take the most, and those that take more than in an earlier table.
func (s seconds) show(out io.Writer, was seconds, rest time.Duration) {
	if len(s) == 0 {
		return
	}
	slower := s.slower(was)
	fmt.Fprintf(out, "processor: %.0f s of tests, %.0f s of building", s.sum().Seconds(), rest.Seconds())
	if len(was) > 0 {
		fmt.Fprintf(out, "; expected by .ci/seconds, times %.2f for this machine:", slower)
	}
	fmt.Fprintln(out)
	folders := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b))
	})
	for i, folder := range folders {
		took := s[folder].Seconds()
		expected := was[folder].Seconds() * slower
		grew := len(was) > 0 && took > expected*grewBy && took-expected > grewAtLeast
		if i >= shownSeconds && !grew {
			continue
		}
		line := fmt.Sprintf("%6.0f s %s", took, folder)
		if len(was) > 0 {
			line = fmt.Sprintf("%6.0f s %5.0f s %s", took, expected, folder)
		}
		if grew {
			line += " GREW"
		}
		fmt.Fprintln(out, line)
	}
}
