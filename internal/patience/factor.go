package patience

import "time"

const (
	// usual is how many programs a processor has to run while the tests run and nothing else
	// does: those of several packages run at a time, and each starts programs.
	usual = 4

	// most bounds the factor: a test that hangs should end, and say where, before it is killed.
	most = 4

	// window is how far apart two looks are: shorter ones are all chance.
	window = 2 * time.Second

	// stale is how far apart they are when they say nothing about now.
	stale = 30 * time.Second

	// hardly is the part of a window in which programs have to run to say how long others kept
	// them waiting. One that looks whether something has happened runs for less.
	hardly = 1. / 20
)

// sample is what the system says at a moment.
type sample struct {
	at       time.Duration // since some time or other
	threads  map[int]times // of this program and those that it has started, by their ids
	stolen   float64       // processor time that other virtual machines had
	total    float64       // processor time that there was, in the same unit
	runnable int           // threads of any program that run or wait for a processor
}

// times are those of a thread.
type times struct{ ran, waited time.Duration }

// factor compares what programs have done between two looks with what they do on a machine that
// runs the tests alone. The first look may be none.
func factor(before, now sample, processors int) float64 {
	slower := float64(now.runnable) / float64(processors)
	if passed := now.at - before.at; before.threads != nil && passed >= window && passed < stale {
		if did := now.since(before); float64(did.ran) >= hardly*float64(passed) {
			slower = float64(did.ran+did.waited) / float64(did.ran)
		}
	}
	if there := now.total - before.total; there > 0 {
		slower /= max(1-(now.stolen-before.stolen)/there, 1./usual)
	}
	return min(max(slower/usual, 1), most)
}

// since is what all threads together did. One that has ended is left out.
func (s sample) since(before sample) (sum times) {
	for id, now := range s.threads {
		then := before.threads[id]
		if now.ran < then.ran || now.waited < then.waited {
			then = times{} // another thread has the id of one that ended
		}
		sum.ran += now.ran - then.ran
		sum.waited += now.waited - then.waited
	}
	return sum
}
