package interest_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/interest"
	"github.com/pqbridge/pqbridge/testenv"
)

// asked is what the server of a connection says about subjects. gone are all subjects whose messages it would deliver to nobody.
func asked(t *testing.T, s *testenv.Server, nc *nats.Conn, subjects ...string) (gone []string, known bool) {
	t.Helper()
	of, err := interest.Of(s.Server())
	if err != nil {
		t.Fatal(err)
	}
	id, err := nc.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	return of(id, subjects)
}

func listen(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// Each account has listeners of its own. Streams that another one imports are listened to there.
func TestAccounts(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t, func(o *server.Options) {
		err := o.ProcessConfigString(`accounts {
			a { users: [{user: a, password: x}], exports: [{stream: "shared.>"}] }
			b { users: [{user: b, password: x}], imports: [{stream: {account: a, subject: "shared.>"}}] }
			mapped { users: [{user: mapped, password: x}], mappings: { "old": "new" } }
		}`)
		if err != nil {
			t.Fatal(err)
		}
	})
	a, b, mapped := s.Connect(t, nats.UserInfo("a", "x")), s.Connect(t, nats.UserInfo("b", "x")), s.Connect(t, nats.UserInfo("mapped", "x"))
	sub := listen(t, a, "one.*")
	if _, err := b.QueueSubscribe("two", "group", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	listen(t, b, "shared.x")
	listen(t, mapped, "new")
	for _, tc := range []struct {
		as   *nats.Conn
		gone []string
	}{
		{a, []string{"two", "shared.y", "new"}},
		{b, []string{"one.x", "shared.y", "new"}},
	} {
		if gone, known := asked(t, s, tc.as, "one.x", "two", "shared.x", "shared.y", "new"); !known || !slices.Equal(gone, tc.gone) {
			t.Errorf("nobody listens at %v, known: %t; expected %v", gone, known, tc.gone)
		}
	}
	// Messages to "old" arrive at "new".
	if gone, known := asked(t, s, mapped, "new", "old"); known {
		t.Errorf("of an account with mappings nobody listens at %v", gone)
	}
	if gone, known := asked(t, s, mapped, "new"); !known || len(gone) > 0 {
		t.Errorf("nobody listens at %v, known: %t", gone, known)
	}

	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if gone, _ := asked(t, s, a, "one.x"); len(gone) != 1 {
		t.Error("there is interest after the end of the subscription")
	}
	id, err := a.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	testenv.Await(t, "the connection has ended", func() bool { return s.Server().GetClient(id) == nil })
	of, err := interest.Of(s.Server())
	if err != nil {
		t.Fatal(err)
	}
	if gone, known := of(id, []string{"one.x"}); known {
		t.Errorf("of a connection that has ended nobody listens at %v", gone)
	}
}

// Clients behind leaf nodes are known, those beyond gateways are not.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	hub := testenv.NATS(t, func(o *server.Options) { o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", server.RANDOM_PORT })
	varz, err := hub.Server().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf := testenv.NATS(t, func(o *server.Options) {
		at := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprintf("127.0.0.1:%d", varz.LeafNode.Port)}
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{at}}}
	})
	nc := hub.Connect(t)
	sub := listen(t, leaf.Connect(t), "x")
	says := func(there bool) func() bool {
		return func() bool {
			gone, known := asked(t, hub, nc, "x")
			return known && (len(gone) == 0) == there
		}
	}
	testenv.Await(t, "the news of a listener arrives", says(true))
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the news of its end arrives", says(false))

	gateway := testenv.NATS(t, func(o *server.Options) {
		o.Gateway = server.GatewayOpts{Name: "east", Host: "127.0.0.1", Port: server.RANDOM_PORT}
	})
	if of, err := interest.Of(gateway.Server()); of != nil || err != nil {
		t.Errorf("a server with gateways tells who listens: %v", err)
	}
}
