package turns

import (
	"fmt"
	"testing"
	"time"
)

// Marks are of a bounded number of keys.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	m := make(marks[string])
	for i := range 2*mostMarks + 1 {
		key := fmt.Sprint("key-", i)
		if m.add(time.Hour, key); !m.has(key) || len(m) > mostMarks {
			t.Fatalf("%d keys have marks, the last one among them: %t; expected %d at most", len(m), m.has(key), mostMarks)
		}
	}
}
