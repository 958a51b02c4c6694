// Package interest says who listens, where the NATS server runs in this process. That costs no message.
//
// It says that nobody listens at a subject only when the server would deliver no message there: to no client, leaf node,
// route or other account. What it says of clients of other servers is as old as their news.
package interest

import "github.com/nats-io/nats-server/v2/server"

// Func returns those of some subjects without a subscriber. client is the server's number of the connection that would publish
// there. It reports false if it cannot tell.
type Func = func(client uint64, subjects []string) (gone []string, known bool)

// Of returns the Func of a server; nil if the server has gateways: it does not know who listens beyond them.
func Of(srv *server.Server) (Func, error) {
	varz, err := srv.Varz(nil)
	if err != nil || varz.Gateway.Name != "" {
		return nil, err
	}
	return func(client uint64, subjects []string) (gone []string, known bool) { return find(srv, client, subjects) }, nil
}

func find(srv *server.Server, client uint64, subjects []string) (gone []string, known bool) {
	account := srv.GetClient(client).Account()
	if account == nil { // the connection has ended
		return nil, false
	}
	for _, subject := range subjects {
		if account.Interest(subject) == 0 {
			gone = append(gone, subject)
		}
	}
	return gone, len(gone) == 0 || !maps(srv, account)
}

// maps reports whether an account may deliver messages at other subjects than theirs.
func maps(srv *server.Server, account *server.Account) bool {
	z, err := srv.Accountz(&server.AccountzOptions{Account: account.GetName()})
	return err != nil || z.Account == nil || len(z.Account.Mappings) > 0
}
