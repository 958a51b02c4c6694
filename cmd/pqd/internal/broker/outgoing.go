package broker

import (
	"cmp"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/subjects"
)

// newEgress returns a filter that replaces on the routes of a server what the filter of messages replaces at the bridge of the
// active node, when that node sheds or as much waits for a route as it would let wait for its bridge.
func newEgress(srv *server.Server, grammar subjects.Grammar, client func() (uint64, error), sheds func() bool, log *slog.Logger) (*egress.Filter, error) {
	if err := egress.Check(); err != nil {
		return nil, err
	}
	account, err := accountOf(srv, client)
	if err != nil {
		return nil, err
	}
	varz, err := srv.Varz(nil)
	if err != nil {
		return nil, err
	}
	f := &egress.Filter{Server: srv, Most: varz.MaxPending / pendingPart, Sheds: sheds, Log: log}
	f.Requests = egress.Requests{Account: account, Group: bridge.QueueGroup, Large: filterLarge, Instead: bridge.TooManyBytes}
	for _, g := range grammar.Each() {
		f.Requests.Prefixes = append(f.Requests.Prefixes, g.Prefix()+".")
	}
	return f, nil
}

// accountOf is the name of the account to which a client of the server belongs.
func accountOf(srv *server.Server, client func() (uint64, error)) (string, error) {
	id, err := client()
	if err != nil {
		return "", err
	}
	found, err := srv.Connz(&server.ConnzOptions{CID: id, Username: true})
	if err != nil {
		return "", err
	}
	if len(found.Conns) == 0 {
		return "", nats.ErrConnectionClosed
	}
	return cmp.Or(found.Conns[0].Account, server.DEFAULT_GLOBAL_ACCOUNT), nil // the server leaves the global one out
}
