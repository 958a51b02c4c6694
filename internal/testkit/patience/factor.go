package patience

import "time"

const (
	// usual is how many runnable programs a processor has while only the tests run: the tests of several packages
	// run at a time, and each starts programs.
	usual = 4

	// most bounds the factor: a test that hangs should end, and say where, before it is killed.
	most = 4

	// window is the least time between two looks: a shorter time shows only chance.
	window = 2 * time.Second

	// stale is the time between two looks after which they say nothing about the present.
	stale = 30 * time.Second

	// hardly is the part of a window in which programs have to run to show how long others kept them waiting. A
	// program that only polls runs for less.
	hardly = 1. / 20
)

// sample is a look at the system.
type sample struct {
	at       time.Duration // since some time or other
	threads  map[int]times // of this program and of programs that it has started, by their ids
	stolen   float64       // processor time that other virtual machines had
	total    float64       // processor time that there was, in the same unit
	runnable int           // threads of any program that run or wait for a processor
}

// times are the times of a thread.
type times struct{ ran, waited time.Duration }

// factor compares the progress of programs between two looks with their progress on a machine that runs the tests
// alone. The first look may be empty.
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

// since is the sum of all threads' times. Threads that have ended are left out.
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
