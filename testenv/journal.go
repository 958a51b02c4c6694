package testenv

import (
	"slices"
	"sync"
)

// journal keeps the lines that a process logs, and wakes tests that wait for more.
type journal struct {
	mu    sync.Mutex
	lines []string
	since int           // where the current run of the process begins
	more  chan struct{} // closed when a line comes
}

// begin notes that the process is about to run.
func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.since = len(j.lines)
}

// start is the number of the first line of the current run.
func (j *journal) start() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.since
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
}

// from returns the lines from a number on, and a channel that is closed when there are more.
func (j *journal) from(next int) ([]string, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.more == nil {
		j.more = make(chan struct{})
	}
	return slices.Clone(j.lines[next:]), j.more
}
