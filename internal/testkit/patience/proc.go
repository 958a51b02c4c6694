package patience

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// look reads the present numbers of the system, if it has any.
func look() (s sample, ok bool) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return s, false
	}
	stat, _ := os.ReadFile("/proc/stat") // without it nothing counts as stolen
	s = sample{at: clock(), runnable: runnable(string(load)), threads: make(map[int]times)}
	s.stolen, s.total = stolen(string(stat))
	for _, process := range family(os.Getpid(), Parents()) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", process))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // it has ended
			}
			if id, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				s.threads[id] = schedstat(string(text))
			}
		}
	}
	return s, true
}

// Parents returns the parent of each process.
func Parents() map[int]int { return ParentsOf(Processes()) }

// ParentsOf returns the parent of each of some processes.
func ParentsOf(all map[int]Process) map[int]int {
	parents := make(map[int]int)
	for id, p := range all {
		parents[id] = p.Parent
	}
	return parents
}

// Process is a process of this machine.
type Process struct {
	Parent int
	Took   time.Duration // of processors, with what its children took that have ended
}

// userHz is how many ticks of /proc a second has.
const userHz = 100

// Processes returns all processes.
func Processes() map[int]Process {
	all := make(map[int]Process)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if p, ok := process(text); ok {
			all[id] = p
		}
	}
	return all
}

// process reads a /proc/<id>/stat.
func process(stat []byte) (p Process, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name before it may have anything in it
	if len(fields) < 15 {
		return p, false
	}
	var err error
	if p.Parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return p, false
	}
	for _, field := range fields[11:15] { // its own, and its children's, each as a user and in the system
		ticks, err := strconv.Atoi(string(field))
		if err != nil {
			return p, false
		}
		p.Took += time.Duration(ticks) * time.Second / userHz
	}
	return p, true
}

// family is a process with all its descendants.
func family(of int, parents map[int]int) []int {
	all := []int{of}
	for i := 0; i < len(all); i++ {
		for id, parent := range parents {
			if parent == all[i] {
				all = append(all, id)
			}
		}
	}
	return all
}

// schedstat reads for how long a thread was on a processor, and for how long it waited for one.
func schedstat(text string) (t times) {
	if _, err := fmt.Sscan(text, &t.ran, &t.waited); err != nil {
		return times{}
	}
	return t
}

// runnable reads the number of threads that run or wait for a processor.
func runnable(loadavg string) (n int) {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 0
	}
	text, _, _ := strings.Cut(fields[3], "/")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// stolen reads how much processor time other virtual machines on the same host took.
func stolen(stat string) (stolen, total float64) {
	line, _, _ := strings.Cut(stat, "\n")
	for i, field := range strings.Fields(line) {
		if i < 1 || i > 8 { // the time of guests is a part of the time of users
			continue
		}
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0
		}
		if total += n; i == 8 {
			stolen = n
		}
	}
	return stolen, total
}
