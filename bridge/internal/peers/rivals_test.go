package peers_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// A proof counts only with the nonce of the question, and on the subject where only the
// named bridge may publish. A bridge of one prefix proves nothing about another prefix.
func TestProofs(t *testing.T) {
	t.Parallel()
	started := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		what    string
		prefix  string // of the other bridge
		store   string // that it proves to have
		subject string // of its proof
		nonce   func(asked string) string
		proves  bool
	}{
		{"the nonce asked for", "pq", "b", "pq._sys.event.bridge", func(asked string) string { return asked }, true},
		{"another nonce", "pq", "b", "pq._sys.event.bridge", func(string) string { return "old" }, false},
		{"no nonce", "pq", "b", "pq._sys.event.bridge", func(string) string { return "" }, false},
		{"where bridges of another prefix publish", "pq", "b", "pq.jobs._sys.event.bridge", func(asked string) string { return asked }, false},
		{"a hint that is wrong about a bridge on the same store", "pq", "a", "pq._sys.event.bridge", func(asked string) string { return asked }, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NATS(t)
			other := srv.Connect(t)
			identity := peers.Identity{ID: "other", Prefix: tc.prefix, StoreID: "b", Started: started}.On(other)
			// Two hints, so that the bridge listens to the subjects of two prefixes.
			hints := []micro.ServiceIdentity{
				{Name: peers.ServiceName, ID: "other", Version: "1.0.0", Metadata: identity.Metadata()},
				{Name: peers.ServiceName, ID: "third", Version: "1.0.0", Metadata: peers.Identity{Prefix: "pq.jobs", StoreID: "c", Started: started}.On(other).Metadata()},
			}
			answer := func(m *nats.Msg) {
				var question struct{ Nonce string }
				if len(m.Data) == 0 {
					for _, hint := range hints {
						body, err := json.Marshal(micro.Info{ServiceIdentity: hint, Type: micro.InfoResponseType})
						if err != nil {
							t.Error(err)
						}
						_ = m.Respond(body)
					}
					return
				}
				if err := json.Unmarshal(m.Data, &question); err != nil {
					t.Error(err)
				}
				proof, err := json.Marshal(map[string]any{
					"nonce": tc.nonce(question.Nonce), "id": "other", "prefix": tc.prefix, "store_id": tc.store,
					"started": map[string]string{"b": "2001-01-01T00:00:00Z"}[tc.store], "server": identity.Server,
				})
				if err != nil {
					t.Error(err)
				}
				_ = other.Publish(tc.subject, proof)
			}
			for _, subject := range []string{"$SRV.INFO.pq", "$SRV.INFO.pq.other"} {
				if _, err := other.Subscribe(subject, answer); err != nil {
					t.Fatal(err)
				}
			}
			if err := other.FlushTimeout(testenv.Patience()); err != nil {
				t.Fatal(err)
			}
			self := peers.Identity{ID: "self", Prefix: "pq", StoreID: "a", Started: started.Add(time.Hour)}
			err := peers.NewRivals(srv.Connect(t, nats.NoEcho()), self, "local:a", slog.New(slog.DiscardHandler)).Refuse(t.Context())
			switch {
			case !tc.proves && err != nil:
				t.Errorf("believed: %v", err)
			case tc.proves && (err == nil || !strings.Contains(err.Error(), "bridge other ") || !strings.Contains(err.Error(), "id b;")):
				t.Errorf("not believed: %v", err)
			}
		})
	}
}

// Bridges must not serve side by side if one gets requests of the other and has another
// store. A store that only one process can open is a copy when two have it.
func TestRivals(t *testing.T) {
	t.Parallel()
	bridge := func(id, prefix, store string, started int64) peers.Identity {
		i := peers.Identity{ID: id, Prefix: prefix, StoreID: store}
		if started > 0 {
			i.Started = time.Unix(started, 0)
		}
		return i
	}
	self, shared := bridge("self", "pq.a", "s", 1), bridge("shared", "pq.a", "s", 0)
	for _, tc := range []struct {
		one, other peers.Identity
		are        bool
	}{
		{self, self, false},
		{self, bridge("other", "pq.a", "t", 2), true},
		{self, bridge("copy", "pq.a", "s", 2), true},
		{self, bridge("outer", "pq", "t", 2), true},
		{self, bridge("inner", "pq.a.b", "t", 2), true},
		{self, bridge("beside", "pq.b", "t", 2), false},
		{self, bridge("longer", "pq.ab", "t", 2), false},
		{self, bridge("shorter", "p", "t", 2), false},
		{shared, bridge("sibling", "pq.a", "s", 0), false},
		{shared, bridge("stranger", "pq.a", "t", 0), true},
	} {
		if got := tc.one.Rivals(tc.other); got != tc.are {
			t.Errorf("%+v and %+v are rivals: %t", tc.one, tc.other, got)
		}
	}
}
