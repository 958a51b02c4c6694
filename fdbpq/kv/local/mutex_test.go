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

// A goroutine that has waited for long is passed the lock: goroutines that come after it wait for it.
func TestMutexIsPassedOn(t *testing.T) {
	t.Parallel()
	m := newMutex()
	if err := m.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, release := make(chan struct{}), make(chan struct{})
	go func() {
		if m.lock(context.Background()) == nil {
			close(got)
			<-release
			m.unlock()
		}
	}()
	await(t, "somebody to wait", func() bool { return m.waiters() == 1 })
	m.mu.Lock()
	m.waiting[0].since = m.waiting[0].since.Add(-starvedAfter)
	m.mu.Unlock()
	m.unlock()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if m.lock(over) == nil {
		t.Error("the lock was taken in front of one that has waited for long")
	}
	<-got
	close(release)
	if err := m.lock(context.Background()); err != nil {
		t.Error(err)
	}
}
