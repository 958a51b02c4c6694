package fdbpq_test

import (
	"fmt"
	"time"
)

// modelClock is store time as the protocol and the package's documentation
// describe it: what processes wrote of it, by clocks that only the test moves.
type modelClock struct {
	made  bool
	time  int64 // store time as it was last written
	wall  int64 // wall clock of the process that wrote it
	moves int   // how often it was written
}

// now is store time as a process goes by it: its own, unless another one has
// written a later one.
func (w *world) now(p *process) int64 {
	own := int64(w.elapsed - p.begun)
	p.ahead = max(p.ahead, w.clock.time-own)
	return own + p.ahead
}

// move writes store time.
func (w *world) move(p *process) {
	w.clock = modelClock{made: true, time: w.now(p), wall: p.wall().UnixNano(), moves: w.clock.moves + 1}
}

// opened gives a process its time when it has opened a store whose time was
// last what it was then: it goes on from there, and if no process ran it adds
// the time that passed by wall clocks since. In a store that several processes
// may open it can only tell when more than two seconds have passed.
func (w *world) opened(p *process, last modelClock) {
	own := int64(w.elapsed - p.begun)
	wall := p.wall().UnixNano()
	if !last.made {
		w.clock = modelClock{made: true, time: wall, wall: wall}
	}
	p.ahead = w.clock.time - own
	alone := w.clock.moves == last.moves
	pause := time.Duration(wall - last.wall)
	switch {
	case !last.made || pause <= 0 || !alone:
	case w.exclusive:
		p.ahead += int64(pause)
	case pause > 2*time.Second:
		p.ahead += int64(pause)
		w.move(p)
	}
}

func everyProcess() bool { return true }

// heartbeat lets those processes write store time that are not left out.
func (w *world) heartbeat(beats func() bool) error {
	for _, p := range w.processes {
		if p == nil || !beats() {
			continue
		}
		w.move(p)
		restore := p.suffer(nil)
		err := p.heartbeat.Beat(w.ctx)
		restore()
		if err != nil {
			return fmt.Errorf("beat of %s: %w", p.name, err)
		}
	}
	return nil
}
