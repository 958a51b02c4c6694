package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A doctor that was killed leaves its queue behind, and the next one deletes it: not that of one that runs, and not a queue
// that only has such a name.
func TestDoctorDeletesWhatItLeftBehind(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	left := fmt.Sprintf("doctor-%d-killed", time.Now().Add(-2*time.Hour).Unix())
	others := []string{fmt.Sprintf("doctor-%d-runs", time.Now().Unix()), "doctor-who"}
	for _, name := range append(others, left) {
		w.does(t, "push", name, "x")
	}
	if said := w.does(t, "doctor"); !strings.Contains(said, "deleted "+left+", which") {
		t.Errorf("doctor says\n%s", said)
	}
	var queues []string
	for line := range strings.Lines(w.does(t, "ls")) {
		if name := strings.Fields(line)[0]; strings.HasPrefix(name, "doctor") {
			queues = append(queues, name)
		}
	}
	if fmt.Sprint(queues) != fmt.Sprint(others) {
		t.Errorf("the queues are %q, expected %q", queues, others)
	}
}
