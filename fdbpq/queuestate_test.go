package fdbpq

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// rowOf is the state row of a queue that has received dead letters of one other queue.
func rowOf(t *testing.T, generation int64, from string) []byte {
	t.Helper()
	config := defaultConfig()
	config.DeadLettersFrom = from
	row, err := (&queueState{generation: generation, exists: true, config: config}).pack()
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// mustParse parses a row by way of what is kept, and anew.
func mustParse(t *testing.T, c *queueStates, queue string, row []byte) *queueState {
	t.Helper()
	s, err := c.parse(queue, row)
	if err != nil {
		t.Fatal(err)
	}
	if fresh, err := parseState(row); err != nil || !reflect.DeepEqual(s, fresh) {
		t.Fatalf("queue %s has the state %+v, and its row is that of %+v, %v", queue, s, fresh, err)
	}
	if c.last(queue) != s {
		t.Fatalf("the state of queue %s is not kept, the last one that was read", queue)
	}
	return s
}

// What a process keeps in memory about queues is bounded, also if all their states differ, and are as large as may be.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		queues, states int // that are read; states are fewer if queues share them
		from           string
		fewest, most   int // states kept
	}{
		{name: "alike", queues: maxKnownQueues + 100, states: 3, fewest: 3, most: 3},
		{name: "different", queues: 30_000, states: 30_000, fewest: 24_000, most: 27_500},
		{name: "large", queues: 3_000, states: 3_000, from: strings.Repeat("q", 4096), fewest: 1_000, most: 2_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rows := make([][]byte, c.states)
			for i := range rows {
				rows[i] = rowOf(t, int64(i)+1, c.from)
			}
			var states queueStates
			for i := range c.queues {
				queue := fmt.Sprint(i)
				if _, err := states.parse(queue, rows[i%c.states]); err != nil {
					t.Fatal(err)
				}
				if states.last(queue) == nil {
					t.Fatalf("the state of queue %d is not kept, the last one that was read", i)
				}
				if n := len(states.ofQueue); n != min(i+1, maxKnownQueues) {
					t.Fatalf("of %d queues %d are known, expected %d at most, and no fewer", i+1, n, maxKnownQueues)
				}
			}
			if n := len(states.ofRow); n < c.fewest || n > c.most {
				t.Errorf("of %d states %d are kept, expected %d to %d", c.states, n, c.fewest, c.most)
			}
			sum, full := 0, 0
			for row := range states.ofRow {
				sum += stateBytes(row)
			}
			for _, known := range states.ofQueue {
				if known.state != nil {
					full++
				} else if known.row != "" {
					t.Fatalf("a state that was dropped still has its row")
				}
			}
			if sum != states.bytes || sum > maxStateBytes {
				t.Errorf("the states take %d bytes, counted are %d, allowed %d", sum, states.bytes, maxStateBytes)
			}
			if c.queues == c.states && full != len(states.ofRow) {
				t.Errorf("%d queues have a state, and %d states are kept", full, len(states.ofRow))
			}
		})
	}
}

// Queues whose rows have the same bytes share a state. A queue whose row is another one has the state of that row, and so
// it has when the former row comes back.
func TestStatesAreThoseOfTheirRows(t *testing.T) {
	t.Parallel()
	var c queueStates
	first, second := rowOf(t, 1, ""), rowOf(t, 2, "")
	s := mustParse(t, &c, "a", first)
	if again := mustParse(t, &c, "a", first); again != s {
		t.Error("a row was parsed twice")
	}
	if other := mustParse(t, &c, "b", first); other != s {
		t.Error("the same row of another queue was parsed")
	}
	if next := mustParse(t, &c, "a", second); next == s || c.last("b") != s {
		t.Error("the state of a queue is not its own")
	}
	if back := mustParse(t, &c, "a", first); back != s {
		t.Error("a former row was parsed again")
	}
	first[len(first)-1] = 'x' // the engine's memory is not what is kept
	mustParse(t, &c, "a", second)
	mustParse(t, &c, "a", rowOf(t, 1, ""))

	c.forget("a")
	if c.last("a") != nil || c.last("b") != s {
		t.Error("one queue was forgotten, expected the other one to stay")
	}
	for _, row := range [][]byte{{}, first[:5], {0xff}} {
		for _, queue := range []string{"a", "b"} {
			if s, err := c.parse(queue, row); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("queue %q: ", queue)) {
				t.Errorf("a damaged row %q of queue %s is read as %+v, %v", row, queue, s, err)
			}
		}
	}
}

// A queue whose state was dropped, since others needed the room, is parsed again. A row without bytes is damage then, too.
func TestDroppedState(t *testing.T) {
	t.Parallel()
	var c queueStates
	row := rowOf(t, 1, "")
	mustParse(t, &c, "a", row)
	c.makeRoom(maxStateBytes)
	if c.last("a") != nil {
		t.Fatal("a state stayed where there was room for none")
	}
	if s, err := c.parse("a", nil); err == nil {
		t.Errorf("no bytes are read as %+v", s)
	}
	c.bytes -= maxStateBytes
	mustParse(t, &c, "a", row)
}

// Whoever writes another state begins with a copy, which must share nothing that could be changed.
func TestCopiesOfStatesShareNothing(t *testing.T) {
	t.Parallel()
	var look func(path string, of reflect.Type)
	look = func(path string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Struct:
			for i := range of.NumField() {
				look(path+"."+of.Field(i).Name, of.Field(i).Type)
			}
		case reflect.Bool, reflect.Int64, reflect.String:
		default:
			if of != reflect.TypeFor[*backoff]() { // it is made by parse alone, and replaced as a whole
				t.Errorf("%s is a %s: a copy of the state shares it", path, of)
			}
		}
	}
	look("state", reflect.TypeFor[queueState]())
}
