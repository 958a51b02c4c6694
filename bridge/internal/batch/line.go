package batch

import "time"

// line is the requests for a key that wait. Its fields are guarded by [Lanes].mu.
type line[R, J any] struct {
	key     string
	pending []R
	joined  []J
	kicked  bool

	running int                    // lanes that serve it
	usual   time.Duration          // that a batch takes
	held    map[string]*Lane[R, J] // by the source of requests in a batch that runs; see Beside
	timer   *time.Timer            // calls startBeside
	waits   bool                   // for the timer
}

// Beside lets batches of a key run at the same time. A batch begins beside others when its
// first request has waited for an eighth of the time that a batch of the key usually takes. So a
// request waits for little more than its own batch. Batches do not get much smaller: clients
// that were answered together ask together.
type Beside[R any] struct {
	// Batches is how many run beside the first one. Zero: each begins when the one before
	// has ended.
	Batches int

	// Least is how long a request waits at least for others to go with. Batches that take little
	// longer follow one another.
	Least time.Duration

	// Source says where a request comes from. Those of one source keep their order: they are in
	// one batch, or in batches that follow one another. A request without a source keeps its
	// order to all others.
	Source func(R) string
}

// besidePart is the part of a batch's usual time that requests wait for others.
const besidePart = 8

// How long the batches of a key follow one another after two of them were in each other's way,
// and after one was not to run beside another.
const (
	conflictTime = time.Second
	returnTime   = 10 * time.Second
)

// usualOf is of how many batches the usual time is a mean, of later ones more than of earlier.
const usualOf = 16

// took notes how long a batch took.
func (l *line[R, J]) took(d time.Duration) {
	if d > 0 {
		l.usual += (d - l.usual) / usualOf
	}
}

// arrived has a request that has just arrived wait for others to go with, and not for the end
// of the batches that run, if it may run beside them.
func (ls *Lanes[R, J]) arrived(line *line[R, J], r R) {
	if source := ls.options.Beside.Source(r); source != "" && line.held[source] == nil {
		ls.waitForOthers(line)
	}
}

// waitForOthers begins a batch beside those that run when requests had time to come
// together.
func (ls *Lanes[R, J]) waitForOthers(line *line[R, J]) {
	beside := &ls.options.Beside
	if line.waits || line.running > beside.Batches || ls.inTurn.has(line.key) {
		return
	}
	line.waits = true
	pause := max(beside.Least, line.usual/besidePart)
	if line.timer == nil {
		line.timer = time.AfterFunc(pause, func() { ls.startBeside(line) })
	} else {
		line.timer.Reset(pause)
	}
}

// startBeside has one more lane serve a line.
func (ls *Lanes[R, J]) startBeside(line *line[R, J]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if line.waits { // otherwise its requests are in a batch
		line.waits = false
		ls.start(line)
	}
}

// maxSkipped bounds the requests that are looked at for a batch beside others. A client that
// sends many without waiting has a long line.
const maxSkipped = 4096

// takeBeside makes a batch of the requests that may run beside the other batches of the
// line.
func (l *Lane[R, J]) takeBeside() {
	line, o := l.line, &l.of.options
	if line.waits || line.held[""] != nil || l.of.inTurn.has(line.key) {
		return
	}
	bytes, left := 0, line.pending[:0]
	for i, r := range line.pending {
		if i == maxSkipped {
			left = append(left, line.pending[i:]...)
			break
		}
		source := o.Beside.Source(r)
		if by := line.held[source]; by != nil && by != l {
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

// hold notes that a request of a source is in the batch.
func (l *Lane[R, J]) hold(source string) {
	if l.line.held[source] != nil {
		return
	}
	if l.line.held == nil {
		l.line.held = make(map[string]*Lane[R, J])
	}
	l.line.held[source] = l
	l.sources = append(l.sources, source)
}

// release lets other batches have the sources of this one, which has ended.
func (l *Lane[R, J]) release() {
	for _, source := range l.sources {
		delete(l.line.held, source)
	}
	clear(l.sources)
	l.sources = l.sources[:0]
}

// RunsBeside reports whether others of the key's batches may have run when this one was made. Of
// batches that run at the same time, all but the first say so.
func (l *Lane[R, J]) RunsBeside() bool { return l.beside }

// Return hands requests of the batch back. A batch that runs beside no other begins with
// them, and for a while the batches of the key follow one another.
func (l *Lane[R, J]) Return(requests []R) { l.returned = append(l.returned, requests...) }

// Conflicted reports that the batch was in the way of another one. For a while the batches of
// the key follow one another.
func (l *Lane[R, J]) Conflicted() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.inTurn.add(conflictTime, l.line.key)
}
