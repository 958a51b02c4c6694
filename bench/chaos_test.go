package main

import (
	"bytes"
	"testing"
	"time"
)

// What replicas write is read as what became of each job.
func TestLedger(t *testing.T) {
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	l := ledger{stored: make(map[string]bool), done: make(map[string]int)}
	for _, e := range []event{
		{job: "1/0"}, {job: "1/1"}, {job: "1/2"}, // the last one is lost
		{done: true, job: "1/0", due: at(0), at: at(0.5)},
		{done: true, job: "1/1", due: at(0), at: at(0.75)},
		{done: true, job: "1/1", due: at(0), at: at(4.5)},  // again, and late
		{done: true, job: "1/3", due: at(4), at: at(4.25)}, // it was pushed, and nobody heard that
	} {
		l.enter(e)
	}
	if l.lost() != 1 || l.doubled() != 1 {
		t.Errorf("found %d lost and %d doubled, expected one of each", l.lost(), l.doubled())
	}
	if f := l.between(at(0), at(2)); f != (figures{rate: 1, p50: 500 * time.Millisecond, p99: 500 * time.Millisecond}) {
		t.Errorf("found %+v: expected two jobs in two seconds", f)
	}
	if f := l.between(at(2), at(3)); f != (figures{}) {
		t.Errorf("found %+v where nothing was done", f)
	}
	if d, is := l.again(at(1), at(6), 2); !is || d < 2500*time.Millisecond || d > 2600*time.Millisecond {
		t.Errorf("found %s, %v: expected the second that ends with the last job", d, is)
	}
	if d, is := l.again(at(1), at(6), 10); is {
		t.Errorf("found ten a second after %s", d)
	}
	if d := l.caughtUp(at(1)); d != 3500*time.Millisecond {
		t.Errorf("caught up after %s: expected when the late one was done", d)
	}
}

func TestEvents(t *testing.T) {
	var out bytes.Buffer
	due := time.Unix(0, time.Now().UnixNano())
	payload := jobPayload("3/17", due)
	if len(payload) != replicaPayload {
		t.Errorf("a payload of %d bytes, expected %d", len(payload), replicaPayload)
	}
	(&lines{w: &out}).write(lineDone, payload)
	e, err := parseEvent(out.String())
	if err != nil || !e.done || e.job != "3/17" || !e.due.Equal(due) || e.at.Before(due) {
		t.Errorf("%q: found %+v, %v", out.String(), e, err)
	}
	for _, line := range []string{"", "gone 3/17 1 2", "done 3/17 1"} {
		if e, err := parseEvent(line); err == nil {
			t.Errorf("%q: found %+v, expected an error", line, e)
		}
	}
}
