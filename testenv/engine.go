package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Engine is one kind of store.
type Engine struct {
	Name string

	// Exclusive: only one process at a time can have such a store open.
	Exclusive bool

	// Place makes room for a store. The function it returns opens that store,
	// empty at first, each time it is called.
	Place func(t testing.TB) func() (kv.DB, error)
}

// firstEngine is a variable with the name of an engine. Tests that run on only one engine
// use that one instead of the embedded one.
const firstEngine = "PQ_TEST_ENGINE"

// Engines are the engines of this build. The first one is for tests that run on
// one only.
func Engines() []Engine {
	engines := append([]Engine{localEngine}, taggedEngines()...)
	name := os.Getenv(firstEngine)
	if name == "" {
		return engines
	}
	for i, engine := range engines {
		if engine.Name == name {
			engines[0], engines[i] = engines[i], engines[0]
			return engines
		}
	}
	panic(fmt.Sprintf("%s=%s: this build has no such engine", firstEngine, name))
}

// Each runs a test on every engine. Each call of open opens the same store. A test closes
// the store before it calls open again. A store that is open when the test ends is closed
// then.
func Each(t *testing.T, test func(t *testing.T, open func() kv.DB)) {
	for _, engine := range Engines() {
		t.Run(engine.Name, func(t *testing.T) { test(t, opener(t, engine)) })
	}
}

func opener(t testing.TB, engine Engine) func() kv.DB {
	place := engine.Place(t)
	return func() kv.DB {
		t.Helper()
		db, err := place()
		if err != nil {
			t.Fatalf("open %s store: %v", engine.Name, err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
				t.Errorf("close %s store: %v", engine.Name, err)
			}
		})
		return db
	}
}

// background is a context for work after the end of a test, when the test's own context has
// ended.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience())
}
