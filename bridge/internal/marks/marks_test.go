package marks

import (
	"fmt"
	"testing"
	"time"
)

// Marks are of a bounded number of keys.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	m := make(Marks[string])
	for i := range 2*most + 1 {
		key := fmt.Sprint("key-", i)
		if m.Add(time.Hour, key); !m.Has(key) || len(m) > most {
			t.Fatalf("%d keys have marks, the last one among them: %t; expected %d at most", len(m), m.Has(key), most)
		}
	}
}
