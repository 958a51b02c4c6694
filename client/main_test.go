package client_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/testenv"
)

// url is the address of the examples' bridge.
var url string

// The examples need a bridge and have no test to ask testenv for one.
func TestMain(m *testing.M) {
	code := 1
	err := withBridge(func(at string) {
		url = at
		code = testenv.RunBeside(m)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func withBridge(run func(url string)) error {
	dir, err := os.MkdirTemp("", "pqbridge-client-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := local.Open(dir, local.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := fdbpq.Open(context.Background(), db, fdbpq.Options{})
	if err != nil {
		return err
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	srv.Start()
	defer srv.Shutdown()
	nc, err := nats.Connect(srv.ClientURL(), append(bridge.ConnectOptions(nil), nats.Timeout(testenv.Patience()))...)
	if err != nil {
		return err
	}
	defer nc.Close()
	b, err := bridge.Start(context.Background(), nc, store, bridge.Options{})
	if err != nil {
		return err
	}
	run(srv.ClientURL())
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
	defer cancel()
	return b.Drain(ctx)
}
