package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// A batch that is out for long is a remark; one that came a moment ago, or a link that holds nothing, is none.
func TestDoctorOnLinks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		held int
		out  time.Duration
		want string
	}{
		{0, time.Hour, ""},
		{7, heldLong, ""},
		{7, time.Hour, "orders: link hub holds 7 items for 1h0m0s: the store abc has not confirmed them"},
	} {
		got := ""
		l := client.Link{Name: "hub", To: "abc", Held: c.held, Since: now.Add(-c.out)}
		examineLink("orders", &l, now, func(k kind, format string, args ...any) {
			if got = fmt.Sprintf(format, args...); k != linkHolds {
				t.Errorf("%s is a remark of queues that %s", got, k)
			}
		})
		if got != c.want {
			t.Errorf("%d items, out for %s: %q, expected %q", c.held, c.out, got, c.want)
		}
	}
}
