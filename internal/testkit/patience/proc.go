package patience

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
func Parents() map[int]int {
	all := make(map[int]int)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name before it may have anything in it.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			all[id] = parent
		}
	}
	return all
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
