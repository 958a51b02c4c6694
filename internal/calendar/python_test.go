package calendar

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// TestPython compares times with the times of a program in another language, which reads the same
// zones with other code. It enumerates local times, not instants.
func TestPython(t *testing.T) {
	python, err := tools.Find("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	if err := exec.Command(python, "-c", "import zoneinfo").Run(); err != nil {
		t.Skip("this python3 has no zoneinfo")
	}
	r := oracleSource(t)
	dir := t.TempDir()
	type question struct {
		Spec, Zone string
		Fields     [][]int
		Stars      [2]bool // days of the month, of the week
		Wild       bool
		From, To   int64
	}
	var questions []question
	var answers [][]int64
	members := func(p part) []int {
		var list []int
		for m := range 60 {
			if p.members[m] {
				list = append(list, m)
			}
		}
		return list
	}
	for _, name := range theZones {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), zoneFile(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
		zone, err := Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		all := changes(t, zone)
		for range 12 {
			s := drawSpec(r, false)
			around := all[r.IntN(len(all))]
			from := around.Add(-20 * time.Hour)
			q := question{
				Spec: s.text, Zone: name, Wild: s.wild, Stars: [2]bool{s.dayOfMonth.star, s.dayOfW.star}, From: from.Unix(), To: from.Add(40 * time.Hour).Unix(),
				Fields: [][]int{members(s.minute), members(s.hour), members(s.dayOfMonth), members(s.month), members(s.dayOfW)},
			}
			c, err := New(Rule{Spec: s.text, Zone: name})
			if err != nil {
				t.Fatal(err)
			}
			ours := []int64{}
			for next, ok := c.Next(from.Add(-1)); ok && next.Unix() < q.To; next, ok = c.Next(next) {
				ours = append(ours, next.Unix())
			}
			questions, answers = append(questions, q), append(answers, ours)
		}
	}
	asked, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "oracle.py"), dir)
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("oracle.py: %v\n%s", err, &problems)
	}
	var theirs [][]int64
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	if len(theirs) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(theirs), len(questions))
	}
	fired := 0
	for i, q := range questions {
		fired += len(theirs[i])
		if diff := firstDifferenceOf(answers[i], theirs[i]); diff != "" {
			t.Errorf("%q in %s from %d: %s", q.Spec, q.Zone, q.From, diff)
		}
	}
	if fired == 0 {
		t.Error("nothing fired")
	}
}

func firstDifferenceOf(got, want []int64) string {
	instants := func(seconds []int64) (times []time.Time) {
		for _, s := range seconds {
			times = append(times, time.Unix(s, 0).UTC())
		}
		return times
	}
	g, w := instants(got), instants(want)
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || !g[i].Equal(w[i]) {
			return firstDifference(g, w)
		}
	}
	return ""
}
