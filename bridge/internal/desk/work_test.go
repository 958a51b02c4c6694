package desk

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A tenant has the room of a transaction back at once if it has not happened, and otherwise when the store is counted.
func TestRoomOfATransactionThatEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		result error
		back   bool
	}{
		"it took effect":               {nil, false},
		"nobody knows":                 {kv.ErrUnknown, false},
		"a part failed, or a conflict": {errors.New("a part failed"), true},
	} {
		now := time.Unix(0, 0)
		one := tenants.New(tenants.Options{
			Quotas: func(string) tenants.Quotas { return tenants.Quotas{Items: 1} },
			Count: func(string) (tenants.Usage, error) {
				now = now.Add(1) // so the next count is later
				return tenants.Usage{}, nil
			},
			Now: func() time.Time { return now },
		}).Of("t")
		to := one.Open()
		if f := to.Admit(1, 1); f != nil {
			t.Fatalf("%s: the first item is refused: %v", name, f)
		}
		EndAdmission(to, tc.result)
		if f := one.Open().Admit(1, 1); (f == nil) != tc.back {
			t.Errorf("%s: another item is refused for %v", name, f)
		}
	}
}
