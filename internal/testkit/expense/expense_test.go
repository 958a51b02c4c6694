package expense_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/expense"
)

var kept []byte

// What is measured is what was spent, and no more than one attempt's.
func TestOf(t *testing.T) {
	const size = 20 << 20 // beyond the bound for nothing, also under the race detector
	c := expense.Of(func() {
		kept = make([]byte, size)
		for i := range kept { // which takes a processor some time
			kept[i] = byte(i * i)
		}
	})
	if c.Bytes < size || c.Bytes > 2*size {
		t.Errorf("%s, expected %d bytes", c, size)
	}
	sent := 0
	least, beyond := expense.Least(func() { kept = make([]byte, 2*size) }, func() int {
		if sent++; sent < 3 { // something else does too much
			kept = make([]byte, size)
		}
		return 0
	})
	if sent != 3 || least.Bytes > size || beyond != "" {
		t.Errorf("%s after %d attempts: %s", least, sent, beyond)
	}
	if least, beyond = expense.Least(func() {}, func() int {
		kept = make([]byte, size)
		return 1000
	}); least.Bytes < size || beyond == "" {
		t.Errorf("%s is within the bounds", least)
	}
}

// The bounds grow with the message.
func TestBeyond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cost   expense.Spent
		bytes  int
		beyond string
	}{
		{expense.Spent{Bytes: 1 << 20}, 0, ""},
		{expense.Spent{Bytes: 17 << 20}, 1 << 20, ""},
		{expense.Spent{Bytes: 1 << 30}, 1 << 20, "bytes allocated"},
		{expense.Spent{Processor: 50 * time.Millisecond}, 0, ""},
		{expense.Spent{Processor: 99 * time.Millisecond}, 1 << 20, ""},
		{expense.Spent{Processor: time.Minute}, 1 << 20, "of a processor"},
	} {
		if got := c.cost.Beyond(c.bytes); (got == "") != (c.beyond == "") || !strings.Contains(got, c.beyond) {
			t.Errorf("%s for %d bytes: %q, expected %q", c.cost, c.bytes, got, c.beyond)
		}
	}
}
