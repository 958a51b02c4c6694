package batch

import "time"

// queueLine has the requests of a key that wait. [Lanes].mu guards its fields.
type queueLine[R, J any] struct {
	key     string
	pending []R
	joined  []J
	woken   bool // Serve was called since the last batch

	running        int                    // lanes that serve the key
	meanTime       time.Duration          // of a batch
	runningSources map[string]*Lane[R, J] // the lane whose batch has requests of a source; see Overlap
	timer          *time.Timer            // calls startOverlapping
	waits          bool                   // the timer runs
}

// Overlap lets batches of a key run at the same time. A batch begins while others run when its first request has
// waited for an eighth of the mean time of the key's batches. So a request waits for little more than its own batch.
// Batches do not get much smaller: clients whose requests were answered together send the next ones together.
type Overlap[R any] struct {
	// Batches is the number of batches that may run beside the first one. Zero: each batch begins when the batch
	// before has ended.
	Batches int

	// Least is the shortest wait of a request for more requests. Batches that take little longer follow one another.
	Least time.Duration

	// Source says where a request comes from. Requests of one source keep their order: they are in one batch, or in
	// batches that follow one another. A request without a source keeps its order to all requests.
	Source func(R) string
}

// overlapPart is the part of the mean time of a batch for which requests wait for more requests.
const overlapPart = 8

// How long the batches of a key follow one another after two batches conflicted, and after a batch handed its requests
// back because another batch was running.
const (
	conflictTime = time.Second
	returnTime   = 10 * time.Second
)

// meanWeight is the weight of the moving average: a new batch counts 1/16.
const meanWeight = 16

// took adds the time of a batch to the mean time.
func (l *queueLine[R, J]) took(d time.Duration) {
	if d > 0 {
		l.meanTime += (d - l.meanTime) / meanWeight
	}
}

// arrived starts the short wait for more requests, if the batch may overlap the running ones.
func (ls *Lanes[R, J]) arrived(line *queueLine[R, J], r R) {
	if source := ls.options.Overlap.Source(r); source != "" && line.runningSources[source] == nil {
		ls.waitForOthers(line)
	}
}

// waitForOthers starts the timer that begins an overlapping batch, unless as many batches as allowed run already, or
// the batches of the key follow one another.
func (ls *Lanes[R, J]) waitForOthers(line *queueLine[R, J]) {
	overlap := &ls.options.Overlap
	if line.waits || line.running > overlap.Batches || ls.serialKeys.has(line.key) {
		return
	}
	line.waits = true
	pause := max(overlap.Least, line.meanTime/overlapPart)
	if line.timer == nil {
		line.timer = time.AfterFunc(pause, func() { ls.startOverlapping(line) })
	} else {
		line.timer.Reset(pause)
	}
}

// startOverlapping has one more lane serve the key.
func (ls *Lanes[R, J]) startOverlapping(line *queueLine[R, J]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if line.waits { // otherwise its requests are in a batch
		line.waits = false
		ls.start(line)
	}
}

// maxSkipped bounds the requests that an overlapping batch looks through. The line is long when a client sends many
// requests without waiting for answers.
const maxSkipped = 4096

// takeOverlapping makes a batch of the requests that may run beside the running batches of the key.
func (l *Lane[R, J]) takeOverlapping() {
	line, o := l.line, &l.of.options
	if line.waits || line.runningSources[""] != nil || l.of.serialKeys.has(line.key) {
		return
	}
	bytes, left := 0, line.pending[:0]
	for i, r := range line.pending {
		if i == maxSkipped {
			left = append(left, line.pending[i:]...)
			break
		}
		source := o.Overlap.Source(r)
		if by := line.runningSources[source]; by != nil && by != l {
			left = append(left, r)
			continue
		}
		bytes += o.Size(r)
		if source == "" || o.full(len(l.now.Requests), bytes) {
			left = append(left, line.pending[i:]...)
			break
		}
		l.now.Requests = append(l.now.Requests, r)
		l.hold(source)
	}
	clear(line.pending[len(left):])
	line.pending = left
}

// hold gives a source to the batch, which has a request of it.
func (l *Lane[R, J]) hold(source string) {
	if l.line.runningSources[source] != nil {
		return
	}
	if l.line.runningSources == nil {
		l.line.runningSources = make(map[string]*Lane[R, J])
	}
	l.line.runningSources[source] = l
	l.sources = append(l.sources, source)
}

// release gives the sources of a batch free, which has ended.
func (l *Lane[R, J]) release() {
	for _, source := range l.sources {
		delete(l.line.runningSources, source)
	}
	clear(l.sources)
	l.sources = l.sources[:0]
}

// RunsBeside reports whether another batch of the key may have been running. It is false for the first.
func (l *Lane[R, J]) RunsBeside() bool { return l.overlaps }

// Return hands requests of the batch back. The batches of the key follow one another for a while, and the first of
// these begins with the requests.
func (l *Lane[R, J]) Return(requests []R) { l.handedBack = append(l.handedBack, requests...) }

// Conflicted notes that the batch conflicted with another batch. The batches of the key follow one another for a while.
func (l *Lane[R, J]) Conflicted() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.serialKeys.add(conflictTime, l.line.key)
}
