package patience

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The factor grows with how long programs wait for a processor, and is never less than 1 or more
// than what keeps a test that hangs below the limit of all.
func TestFactor(t *testing.T) {
	t.Parallel()
	const s = time.Second
	did := func(ran, waited time.Duration) map[int]times { return map[int]times{7: {ran, waited}} }
	first := sample{at: 10 * s, threads: did(5*s, 5*s)}
	for _, c := range []struct {
		name        string
		before, now sample
		processors  int
		want        float64
	}{
		{"nothing is known", sample{}, sample{}, 2, 1},
		{"first look, as usual", sample{}, sample{at: 10 * s, threads: did(s, 9*s), runnable: 8}, 2, 1},
		{"first look, busy", sample{}, sample{at: 10 * s, threads: did(s, 0), runnable: 16}, 2, 2},
		{"first look, many processors", sample{}, sample{at: 10 * s, runnable: 16}, 16, 1},
		{"never waited", first, sample{at: 12 * s, threads: did(7*s, 5*s), runnable: 99}, 2, 1},
		{"waited as usual", first, sample{at: 12 * s, threads: did(5*s+s/2, 6*s+s/2)}, 2, 1},
		{"waited twice as long", first, sample{at: 12 * s, threads: did(5*s+s/4, 6*s+3*s/4)}, 2, 2},
		{"waited for ever", first, sample{at: 12 * s, threads: did(5*s+s/4, 50*s)}, 2, 4},
		{"hardly ran, and nobody does", first, sample{at: 12 * s, threads: did(5*s+s/100, 6*s), runnable: 1}, 2, 1},
		{"hardly ran, and many do", first, sample{at: 12 * s, threads: did(5*s+s/100, 5*s), runnable: 24}, 2, 3},
		{"too close", first, sample{at: 11 * s, threads: did(5*s+s/4, 50*s), runnable: 16}, 2, 2},
		{"too far apart", first, sample{at: 50 * s, threads: did(15*s, 500*s), runnable: 16}, 2, 2},
		{"a new thread", first, sample{at: 12 * s, threads: map[int]times{7: {5 * s, 5 * s}, 8: {s / 4, 7 * s / 4}}}, 2, 2},
		{"all threads ended", first, sample{at: 12 * s, runnable: 16}, 2, 2},
		{"another thread of the same id", first, sample{at: 12 * s, threads: did(s/4, 7*s/4)}, 2, 2},
		{"half is stolen", sample{at: 10 * s, threads: did(0, 0), stolen: 10, total: 100}, sample{at: 12 * s, threads: did(s, 3*s), stolen: 110, total: 300}, 2, 2},
		{"all is stolen", sample{at: 10 * s, threads: did(0, 0)}, sample{at: 12 * s, threads: did(s, s), stolen: 100, total: 100}, 2, 2},
	} {
		if got := factor(c.before, c.now, c.processors); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// What the system says is read; what is no text of its is nothing.
func TestTextsOfTheSystem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"0.10 0.20 0.30 12/456 4711\n": 12, "": 0, "none": 0, "1 2 3 x/4 5": 0} {
		if got := runnable(text); got != want {
			t.Errorf("%q: %d threads, expected %d", text, got, want)
		}
	}
	for text, want := range map[string]times{"59022356 329819437 241\n": {59022356, 329819437}, "": {}, "1": {}, "a b": {}} {
		if got := schedstat(text); got != want {
			t.Errorf("%q: %v, expected %v", text, got, want)
		}
	}
	for text, want := range map[string][2]float64{
		"cpu  10 20 30 40 50 60 70 80 1000 1000\ncpu0 1 1 1 1 1 1 1 1 1 1\n": {80, 360},
		"cpu  10 20 30 40\n": {0, 100}, "cpu x": {0, 0}, "": {0, 0},
	} {
		if got, of := stolen(text); got != want[0] || of != want[1] {
			t.Errorf("%q: %v of %v, expected %v", text, got, of, want)
		}
	}
	if got := fmt.Sprint(family(1, map[int]int{1: 0, 2: 1, 3: 2, 4: 0, 5: 4})); got != "[1 2 3]" {
		t.Errorf("the family is %s", got)
	}
}

// Programs that this one has started count.
func TestLook(t *testing.T) {
	t.Parallel()
	now, ok := look()
	if !ok {
		t.Skip("the system does not say how busy it is")
	}
	if now.at <= 0 || now.runnable < 1 || now.total <= 0 {
		t.Errorf("seen %+v", now)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/schedstat", os.Getpid())); err != nil {
		t.Skip("the system does not say how long threads wait")
	}
	child := exec.CommandContext(t.Context(), "cat")
	input, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	now, _ = look()
	_, mine := now.threads[os.Getpid()]
	_, its := now.threads[child.Process.Pid]
	if !mine || !its {
		t.Errorf("threads %v, expected %d and %d", now.threads, os.Getpid(), child.Process.Pid)
	}
	if err := input.Close(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

// The system is not asked at each question.
func TestLooksAreFew(t *testing.T) {
	t.Parallel()
	looks := 0
	var g gauge
	for range 1000 {
		g.factor(func() (sample, bool) { looks++; return sample{at: clock() + time.Hour, runnable: 16}, true }, 2)
	}
	if got := g.factor(nil, 2); got != 2 || looks != 1 {
		t.Errorf("%d looks, and %v, expected one, and 2", looks, got)
	}
	if got := new(gauge).factor(func() (sample, bool) { return sample{}, false }, 2); got != 1 {
		t.Errorf("%v where the system says nothing, expected 1", got)
	}
}

// All bounds are in proportion, and below the bounds of everything that has to last longer.
func TestBounds(t *testing.T) {
	t.Parallel()
	for of, got := range map[time.Duration]time.Duration{long: Long(), 2 * time.Second: Attempt(), time.Millisecond: Times(time.Millisecond)} {
		if got < of || got > most*of {
			t.Errorf("%s instead of %s", got, of)
		}
	}
	if most*long >= Most || Most >= 5*time.Minute {
		t.Errorf("Most is %s", Most)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, late, began := Begin(), Late(), time.Now()
		if w.Over() {
			t.Error("a wait is over that has just begun")
		}
		<-late
		if took := time.Since(began); took < long || took > most*long+window {
			t.Errorf("it was late after %s", took)
		}
		for !w.Over() {
			<-time.After(time.Second)
		}
		if took := time.Since(began); took < long || took > most*long+window {
			t.Errorf("a wait took %s", took)
		}
	})
}

// told is a test that has been told something.
type told struct{ logs, failures strings.Builder }

func (*told) Helper()                     {}
func (f *told) Logf(s string, a ...any)   { fmt.Fprintf(&f.logs, s, a...) }
func (f *told) Fatalf(s string, a ...any) { fmt.Fprintf(&f.failures, s, a...) }

// The first wait in vain shows what all goroutines do, and no other one.
func TestFail(t *testing.T) {
	t.Parallel()
	var first, second told
	Fail(&first, "not after %d", 1)
	Fail(&second, "not after %d", 2)
	if log := first.logs.String(); !strings.Contains(log, "TestFail") || !strings.Contains(log, "goroutine ") || second.logs.Len() > 0 {
		t.Errorf("logged %q, and %q", log, second.logs.String())
	}
	if a, b := first.failures.String(), second.failures.String(); a != "not after 1" || b != "not after 2" {
		t.Errorf("failed with %q and %q", a, b)
	}
}

func TestStat(t *testing.T) {
	p, ok := process([]byte("7 (a) b (c) S 3 7 7 0 -1 4194304 1 2 3 4 100 20 5 3 20 0 1 0 9 9 9"))
	if want := (Process{3, 1280 * time.Millisecond}); !ok || p != want {
		t.Errorf("%v, %t, expected %v", p, ok, want)
	}
	for _, text := range []string{"", "7 (a)", "7 (a) S x 7 7 0 -1 4194304 1 2 3 4 100 20 5 3", "7 (a) S 3 7 7 0 -1 4194304 1 2 3 4 x 20 5 3"} {
		if p, ok := process([]byte(text)); ok {
			t.Errorf("%q: %v", text, p)
		}
	}
}
