package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// afterQuit is how long a test's program may take to print what it and its pqd do.
const afterQuit = 30 * time.Second

// slowed is a clock that goes more slowly while the machine does: a test on a busy one has as long as on a quiet one.
type slowed struct {
	at    []time.Time
	shows []time.Duration // at these times
}

// tick notes how much longer things took since the tick before.
func (s *slowed) tick(now time.Time, factor float64) {
	var shows time.Duration
	if last := len(s.at) - 1; last >= 0 {
		shows = s.shows[last] + time.Duration(float64(now.Sub(s.at[last]))/factor)
	}
	s.at, s.shows = append(s.at, now), append(s.shows, shows)
}

// since is how much time has passed on it between a time and the last tick.
func (s *slowed) since(t time.Time) time.Duration {
	i, _ := slices.BinarySearchFunc(s.at, t, time.Time.Compare)
	if i == len(s.at) {
		return 0
	}
	return s.shows[len(s.shows)-1] - s.shows[i]
}

// watch ends tests that run for too long, by a clock that is slowed as the machine is.
func watch(goTest int, limit time.Duration, r *recorder, ended <-chan struct{}) {
	tick := time.NewTicker(min(limit/10, 5*time.Second))
	defer tick.Stop()
	var clock slowed
	for {
		select {
		case <-ended:
			return
		case now := <-tick.C:
			clock.tick(now, patience.Factor())
			t := r.longest()
			if t.pkg == "" || clock.since(t.since) < limit {
				continue
			}
			r.kills(t)
			programs := programsOf(goTest, t.pkg)
			fmt.Fprintf(r.out, "*** %s %s runs for more than %s: SIGQUIT to %v ***\n", t.pkg, t.name, limit, programs)
			for _, pid := range programs {
				_ = syscall.Kill(pid, syscall.SIGQUIT) // it may have ended just now
			}
			time.AfterFunc(afterQuit, func() {
				for _, pid := range programs {
					if isTest(pid) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			})
		}
	}
}

// end ends a go test and all below it, at once. What has left its process group, as a cluster of servers has, cleans
// up when the program of tests is no more.
func end(goTest int) {
	group, err := syscall.Getpgid(goTest)
	if err != nil {
		return // it has ended
	}
	parents := patience.Parents()
	_ = syscall.Kill(goTest, syscall.SIGKILL) // first, so that it does not take this for a failure
	for pid := range parents {
		if of, err := syscall.Getpgid(pid); err == nil && of == group && isBelow(pid, goTest, parents) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// isBelow reports whether a process was started by another one, or by one that was.
func isBelow(pid, other int, parents map[int]int) bool {
	for over := parents[pid]; over > 1; over = parents[over] {
		if over == other {
			return true
		}
	}
	return false
}

// programsOf are the processes below a go test that run the tests of a package. There are none to
// be found where the system has no /proc: there -timeout ends them.
func programsOf(goTest int, pkg string) (found []int) {
	dirs, err := folders([]string{pkg})
	if err != nil {
		return nil
	}
	parents := patience.Parents()
	for pid := range parents {
		if !isBelow(pid, goTest, parents) {
			continue
		}
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && dir == dirs[pkg] && isTest(pid) {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// isTest reports whether a process is a program of tests.
func isTest(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.HasSuffix(strings.TrimSuffix(exe, " (deleted)"), ".test")
}
