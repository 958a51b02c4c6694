package jetstream_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/internal/jetstream"
)

// The stream remembers who was replaced, each member once, until it has the place of another one. What else is noted there stays.
func TestReplacedMembers(t *testing.T) {
	t.Parallel()
	given := map[string]string{"team": "a"}
	c := js.StreamConfig{Metadata: given}
	for _, step := range []struct {
		old, by string
		changes bool
		want    []string
	}{
		{"one", "four", true, []string{"one"}},
		{"one", "four", false, []string{"one"}},
		{"two", "five", true, []string{"one", "two"}},
		{"five", "one", true, []string{"two", "five"}},
		{"four", "five", true, []string{"two", "four"}},
	} {
		changed := jetstream.Replace(&c, step.old, step.by)
		if got := jetstream.Replaced(&c); changed != step.changes || !slices.Equal(got, step.want) {
			t.Errorf("%s has the place of %s: changed: %t, replaced: %q, expected %t and %q", step.by, step.old, changed, got, step.changes, step.want)
		}
	}
	if c.Metadata["team"] != "a" || len(given) != 1 {
		t.Errorf("the metadata are %v, and the owner's were changed to %v", c.Metadata, given)
	}
	const many = 1000
	for n := range many {
		jetstream.Replace(&c, strconv.Itoa(n), "")
	}
	if all := jetstream.Replaced(&c); len(all) > many/2 || all[len(all)-1] != strconv.Itoa(many-1) {
		t.Errorf("after %d replacements %d are remembered, the last one as %q", many, len(all), all[len(all)-1])
	}
}

// A recovery forgets nobody who was replaced.
func TestNextGenerationKnowsWhoWasReplaced(t *testing.T) {
	t.Parallel()
	nc := connect(t, single(t).URL())
	first := open(t, nc, jetstream.Options{Name: "store", Replicas: 1, MaxBytes: maxBytes})
	if err := first.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := configOf(t, nc, 1)
	jetstream.Replace(&config, "lost", "new")
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for generation := range uint64(2) {
		if err := first.Generation(generation + 2).Create(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := configOf(t, nc, generation+2)
		if got := jetstream.Replaced(&next); !slices.Equal(got, []string{"lost"}) {
			t.Errorf("generation %d says that %q were replaced, expected lost", generation+2, got)
		}
	}
}

// configOf is the configuration of a generation of the store.
func configOf(t *testing.T, nc *nats.Conn, generation uint64) js.StreamConfig {
	t.Helper()
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.Stream(t.Context(), jetstream.Stream("store", generation))
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}
