package broker

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// The filter on routes looks for requests to the bridge: in its account, under its prefixes, for its queue group. It replaces
// those that the bridge's own filter would, by the same mark.
func TestEgressIsForTheBridge(t *testing.T) {
	t.Parallel()
	own := server.NewAccount("OWN")
	srv, err := server.NewServer(&server.Options{
		DontListen: true, NoSigs: true, NoLog: true, MaxPending: 16 << 20,
		Accounts: []*server.Account{own}, Users: []*server.User{{Username: "o", Password: "o", Account: own}, {Username: "g", Password: "g"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	plain, err := subjects.New("a.b")
	if err != nil {
		t.Fatal(err)
	}
	atSite, err := plain.AtSite("hub")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	for user, want := range map[string]egress.Requests{
		"g": {Account: "$G", Prefixes: []string{"a.b."}, Group: "pq", Large: 8192, Instead: bridge.TooManyBytes},
		"o": {Account: "OWN", Prefixes: []string{"a.b.", "hub.a.b."}, Group: "pq", Large: 8192, Instead: bridge.TooManyBytes},
	} {
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(user, user), nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		grammar := plain
		if user == "o" {
			grammar = atSite
		}
		f, err := newEgress(srv, grammar, nc.GetClientID, func() bool { return user == "o" }, log)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f.Requests, want) || f.Most != 1<<20 || f.Sheds() != (user == "o") || f.Server != srv || f.Log != log {
			t.Errorf("user %s: the filter looks for %+v beyond %d bytes, expected %+v beyond %d", user, f.Requests, f.Most, want, 1<<20)
		}
	}
	if _, err := newEgress(srv, plain, func() (uint64, error) { return 4711, nil }, nil, log); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("a connection that the server does not have: %v", err)
	}
}
