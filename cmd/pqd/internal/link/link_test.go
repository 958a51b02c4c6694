package link

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// The pauses before another connection double up to half a minute, and begin anew after a connection that lived.
func TestLinkPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var closed func()
		dials, uses, ends := 0, 0, 0
		var refuse atomic.Bool
		l := &Link{
			Name: "a connection", Log: slog.New(slog.DiscardHandler),
			Dial: func(_ context.Context, more ...nats.Option) (*nats.Conn, error) {
				dials++
				if refuse.Load() {
					return nil, nats.ErrAuthorization
				}
				var o nats.Options
				for _, option := range more {
					if err := option(&o); err != nil {
						return nil, err
					}
				}
				closed = func() { o.ClosedCB(nil) }
				return new(nats.Conn), nil
			},
			Begin: func(context.Context, *nats.Conn) error {
				uses++
				return nil
			},
			End: func() { ends++ },
		}
		if err := errors.Join(l.Connect(ctx), l.Use(ctx)); err != nil {
			t.Fatal(err)
		}
		go l.Keep(ctx)
		// rests are how long each of n ends lasts. The connection lives for a while before each.
		rests := func(n int, lives time.Duration) (all []time.Duration) {
			for range n {
				time.Sleep(lives)
				began := time.Now()
				closed()
				synctest.Wait()
				if l.Away() == nil || uses != ends {
					t.Errorf("%d uses have begun, %d ended, away: %v", uses, ends, l.Away())
				}
				l.Await(ctx)
				all = append(all, time.Since(began))
				if l.Away() != nil || uses != ends+1 {
					t.Errorf("%d uses have begun, %d ended, away: %v", uses, ends, l.Away())
				}
			}
			return all
		}
		if got, want := rests(7, 0), []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}; !slices.Equal(got, want) {
			t.Errorf("pauses %s, expected %s", got, want)
		}
		if got, want := rests(2, time.Minute), []time.Duration{1e9, 1e9}; !slices.Equal(got, want) {
			t.Errorf("pauses after a long life %s, expected %s", got, want)
		}
		// A refused login is tried again, too: pqd served before.
		before := dials
		refuse.Store(true)
		closed()
		time.AfterFunc(10*time.Second, func() { refuse.Store(false) })
		synctest.Wait()
		l.Await(ctx)
		if n := dials - before; n != 3 { // after 2, 6 and 14 s
			t.Errorf("%d attempts, expected 3", n)
		}
		closed()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if l.Away() == nil {
			t.Error("a connection was made after the end")
		}
	})
}
