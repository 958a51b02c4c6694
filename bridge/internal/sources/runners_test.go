package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// counted is a store that counts transactions which may write.
type counted struct {
	kv.DB
	updates int
}

func (c *counted) Update(ctx context.Context, fn func(kv.Tx) error) error {
	c.updates++
	return c.DB.Update(ctx, fn)
}

// running are runners whose looks a test makes. Their workers wait for a remote that says nothing.
type running struct {
	*testing.T
	*Runners
	db    *counted
	knows bool // the bridge knows the remote
}

func runningFor(t *testing.T, alone bool, sources int) *running {
	t.Helper()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{T: t, db: &counted{DB: db}, knows: true}
	store, err := fdbpq.Open(t.Context(), r.db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	remote := Remote{
		Connect: func(...nats.Option) (*nats.Conn, error) {
			<-ended
			return nil, errors.New("it says nothing")
		},
		Read: map[string][]string{"ORDERS": {"*"}},
	}
	r.Runners = New(Options{
		Store: store, Sources: source.New(store), Wire: new(codec.Wire), Bridge: "a", Alone: alone, Log: slog.New(slog.DiscardHandler), Failed: func(error) {},
		Remotes: func() map[string]Remote {
			if !r.knows {
				return nil
			}
			return map[string]Remote{"hub": remote}
		},
	})
	t.Cleanup(func() {
		close(ended)
		r.leave()
		db.Close()
	})
	err = r.db.Update(t.Context(), func(tx kv.Tx) error {
		for i := range sources {
			_, err := r.Sources.Set(tx, store.Queue(fmt.Sprint("jobs", i%10)), fmt.Sprint("orders", i), []byte(`{"remote":"hub","stream":"ORDERS"}`), func(source.Config) error { return nil })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// looks has the bridge look so much later, and returns how many transactions that takes.
func (r *running) looks(later time.Duration) int {
	r.Helper()
	for _, w := range r.workers {
		w.spoke = time.Now().Add(-later)
	}
	before := r.db.updates
	if err := r.look(r.Context()); err != nil {
		r.Fatal(err)
	}
	return r.db.updates - before
}

// runs returns which sources somebody runs, in the store.
func (r *running) runs() (names []string) {
	r.Helper()
	err := r.Store.View(r.Context(), func(reader kv.Reader) error {
		all, err := r.Sources.All(reader)
		for i := range all {
			if all[i].Run.Holds(int64(r.Store.Time())) {
				names = append(names, all[i].Name+" "+all[i].Run.Problem)
			}
		}
		return err
	})
	if err != nil {
		r.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// Sources that stand cost a bridge one transaction for all of them, and none where it has the store for itself and nothing has changed.
func TestStandingSourcesWriteLittle(t *testing.T) {
	t.Parallel()
	for alone, want := range map[bool]int{false: 1, true: 0} {
		r := runningFor(t, alone, 30)
		r.looks(0) // bridges leave what is free to each other, by chance, once
		r.looks(0)
		if n := len(r.runs()); n != 30 || len(r.workers) != 30 {
			t.Fatalf("alone %t: it runs %d, and has %d workers", alone, n, len(r.workers))
		}
		if n := r.looks(0); n != 0 {
			t.Errorf("alone %t: the next look takes %d transactions", alone, n)
		}
		if n := r.looks(sayEvery); n != want {
			t.Errorf("alone %t: later it takes %d transactions, expected %d", alone, n, want)
		}
		for key, w := range r.workers {
			if key.name == "orders7" {
				w.failing("it hurts")
			}
		}
		if n := r.looks(sayEvery); n != 1 || !slices.Contains(r.runs(), "orders7 it hurts") {
			t.Errorf("alone %t: a problem takes %d transactions", alone, n)
		}
	}
}

// A bridge that has the store for itself, and whose word holds for long, says when it runs a source no more, also for one that was killed.
func TestBridgeAloneLeavesItsSources(t *testing.T) {
	t.Parallel()
	r := runningFor(t, true, 3)
	r.looks(0)
	if n := len(r.runs()); n != 3 {
		t.Fatalf("it runs %d", n)
	}
	killed := r.Bridge
	r.Bridge = "b"
	if r.looks(sayEvery); len(r.runs()) != 3 {
		t.Errorf("behind the bridge %s that was killed the next one runs %v", killed, r.runs())
	}
	r.Bridge = "c" // which does not know the remote
	if r.knows = false; r.looks(sayEvery) != 1 || len(r.runs()) != 0 {
		t.Errorf("without the remote it runs %v", r.runs())
	}
	if n := r.looks(sayEvery); n != 0 {
		t.Errorf("a later look takes %d transactions", n)
	}
}

// The log tells when a source fails and when it goes on, and not of each attempt.
func TestLogOfSources(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &worker{runners: &Runners{Options: Options{Log: slog.New(slog.NewTextHandler(&out, nil))}}, id: id{queue: "jobs", name: "orders"}}
	for _, step := range []struct{ problem, want string }{
		{"", ""},
		{"no such stream", `level=WARN msg="a source fails, and is tried again" queue=jobs source=orders error="no such stream"`},
		{"no such stream", ""},
		{"another reason", ""},
		{"", `level=INFO msg="a source goes on" queue=jobs source=orders`},
		{"", ""},
		{"no such stream", "level=WARN"},
	} {
		out.Reset()
		w.failing(step.problem)
		if found := out.String(); (found != "") != (step.want != "") || !strings.Contains(found, step.want) {
			t.Errorf("with the problem %q: %q, expected %q", step.problem, found, step.want)
		}
		if _, problem, _ := w.report(); problem != step.problem {
			t.Errorf("the problem is %q, expected %q", problem, step.problem)
		}
	}
	w.failing("refused\n\x1b[2J" + strings.Repeat("é", 30_000))
	if _, problem, _ := w.report(); problem != "refused  [2J"+strings.Repeat("é", 144) {
		t.Errorf("the problem is %q", problem)
	}
}
