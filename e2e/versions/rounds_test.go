package versions_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// turns are programs that serve one store in turns or side by side.
type turns struct {
	random *rand.Rand
	old    string
	fields map[string]bool // of a queue's configuration that both know
	counts map[string]int  // what happened, by its name
}

// rounds has rounds of a test, each on a store and from a seed of its own, until the time is over or one fails.
func rounds(t *testing.T, round func(t *testing.T, x *turns)) {
	t.Helper()
	before := needEarlier(t)
	old, fields := before.build(t, "cmd/pqd"), before.fields(t)
	total, n, begun := make(map[string]int), 0, time.Now()
	for seed := pqd.Seed(); n == 0 || time.Since(begun) < *flagVersions && !t.Failed(); seed++ {
		n++
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			x := &turns{random: rand.New(rand.NewPCG(seed, 0)), old: old, fields: fields, counts: make(map[string]int)}
			round(t, x)
			for what, times := range x.counts {
				total[what] += times
			}
			if t.Failed() {
				t.Logf("-pq.seed=%d begins with this round; %s after the first one", seed, time.Since(begun).Round(time.Second))
			}
		})
	}
	var said []string
	for _, what := range slices.Sorted(maps.Keys(total)) {
		said = append(said, fmt.Sprintf("%d %s", total[what], what))
	}
	t.Logf("%d rounds in %s: %s", n, time.Since(begun).Round(time.Second), strings.Join(said, ", "))
}

// program is one of the two; "" is this one.
func (x *turns) program() string { return []string{x.old, ""}[x.random.IntN(2)] }

// name is that of a program in what is logged.
func (x *turns) name(program string) string {
	if program == x.old {
		return "the earlier program"
	}
	return "this program"
}

// next is the program that follows one: the other one in two cases of three.
func (x *turns) next(before string) (next string) {
	switch {
	case x.random.IntN(3) == 0:
		x.counts["starts of the same program"]++
		return before
	case before == "":
		x.counts["downgrades"]++
		return x.old
	default:
		x.counts["upgrades"]++
		return ""
	}
}

// check has both programs look for damage in a directory of a store that no process has open.
func (x *turns) check(t testing.TB, dir string) {
	t.Helper()
	for _, program := range []string{x.old, ""} {
		x.counts["checks"]++
		if code, stdout, stderr := testenv.RunOf(t, program, []string{"PQ_STORE=local:" + dir}, "check"); code != 0 {
			t.Errorf("pqd check of %s: %s %s", x.name(program), stdout, stderr)
		}
	}
}
