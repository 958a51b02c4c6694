package testenv_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestClientsFindARestartedServer(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	back := make(chan struct{})
	nc := srv.Connect(t, nats.ReconnectWait(0), nats.MaxReconnects(-1), nats.ReconnectHandler(func(*nats.Conn) { close(back) }))
	srv.Restart(t)
	<-back
	if err := nc.Flush(); err != nil {
		t.Error(err)
	}
}

func TestServerOptions(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, testenv.Websocket, func(o *server.Options) { o.Authorization = "token" })
	if url := srv.WebsocketURL(); !strings.HasPrefix(url, "ws://127.0.0.1:") {
		t.Errorf("websocket at %s", url)
	}
	nc, err := nats.Connect(srv.WebsocketURL(), nats.Token("token"), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := nats.Connect(srv.URL()); err == nil {
		t.Error("connected without the token")
	}
}

func TestOpenOpensTheSameStore(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		first := testenv.OpenStore(t, db, fdbpq.Options{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		second := testenv.OpenStore(t, open(), fdbpq.Options{})
		if first.ID() != second.ID() {
			t.Errorf("store %s, then store %s", first.ID(), second.ID())
		}
		if other := testenv.Store(t); other.ID() == second.ID() {
			t.Error("two tests share a store")
		}
	})
}
