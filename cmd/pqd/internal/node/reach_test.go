package node

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pqd leaves a server where no leader of the log answers, less and less often, and has
// the first patience again once one has answered.
func TestReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		reached := began
		var left []time.Duration // since the beginning
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			reach{
				reached: func() time.Time {
					if since := time.Since(began); since < time.Minute || since > 10*time.Minute && since < 11*time.Minute {
						reached = time.Now()
					}
					return reached
				},
				leave: func(time.Duration) { left = append(left, time.Since(began)) },
			}.watch(ctx)
		}()
		<-time.After(12 * time.Minute)
		cancel()
		<-done
		want := []time.Duration{}
		for _, seconds := range []int{75, 106, 167, 288, 409, 530, 675, 706} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if !slices.Equal(left, want) {
			t.Errorf("it left at %v, expected %v", left, want)
		}
	})
}
