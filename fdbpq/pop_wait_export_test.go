package fdbpq

import "runtime"

// AwaitLine returns when n pops of all priorities wait at the queue.
func AwaitLine(s *Store, queue string, n int) {
	for {
		s.lines.mu.Lock()
		length := len(s.lines.lines[lineKey{queue: queue, band: AllPriorities}])
		s.lines.mu.Unlock()
		if length == n {
			return
		}
		runtime.Gosched()
	}
}
