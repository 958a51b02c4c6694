package local

import (
	"context"
	"sync"
	"testing"
)

func TestMutexExcludes(t *testing.T) {
	t.Parallel()
	m := newMutex()
	count := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				ctx, cancel := context.WithCancel(context.Background())
				if i%3 == 0 {
					go cancel()
				}
				if m.lock(ctx) == nil {
					count++
					m.unlock()
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if count < 8*2000/3 {
		t.Errorf("the lock was taken %d times", count)
	}
	if err := m.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if m.lock(ctx) == nil {
		t.Error("the lock was taken twice")
	}
	m.unlock()
	if m.waiters() != 0 {
		t.Error("somebody waits for ever")
	}
}
