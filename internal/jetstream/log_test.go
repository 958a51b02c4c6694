package jetstream_test

import (
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/testenv"
)

// What other streams of the account take, the log cannot have.
func TestAccountLimit(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	nc := connect(t, testenv.NATS(t, testenv.AccountLimit(t, "8M")).URL())
	l := open(t, nc, jetstream.Options{Name: "store", Replicas: 1, MaxBytes: most})
	if err := l.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), 0, make([]byte, 1<<19)); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, least, atMost uint64) {
		t.Helper()
		testenv.Await(t, what, func() bool {
			state, err := l.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return state.MaxBytes == most && state.Bytes >= least && state.Bytes <= atMost
		})
	}
	expect("the log has its room for itself", 1<<19, 1<<19+1000)
	api, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	other, err := api.CreateStream(t.Context(), js.StreamConfig{Name: "other", Subjects: []string{"other"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if _, err := api.Publish(t.Context(), "other", make([]byte, 1<<19)); err != nil {
			t.Fatal(err)
		}
	}
	expect("the other stream has taken some of it", 5<<19, 6<<19) // of 16 parts 13 are taken, of its 8 have to be 5
	if err := other.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("the log has its room for itself again", 1<<19, 1<<19+1000)
}
