// Package interest tells whether a subject has a subscriber, if the NATS server runs in this process. That costs no
// message.
//
// It reports a subject as gone only when the server would deliver a message there to nobody: no client, leaf node,
// route or other account. About clients of other servers it knows only as much as this server has heard.
package interest

import "github.com/nats-io/nats-server/v2/server"

// Func returns the subjects, of these, without a subscriber. client is the server's number of the connection that
// would publish there. known is false if it cannot tell.
type Func = func(client uint64, subjects []string) (gone []string, known bool)

// Of returns the Func of a server; nil if the server has gateways, because it does not know the subscribers beyond
// them.
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

// maps reports whether an account may deliver messages to other subjects than the ones they were sent to.
func maps(srv *server.Server, account *server.Account) bool {
	z, err := srv.Accountz(&server.AccountzOptions{Account: account.GetName()})
	return err != nil || z.Account == nil || len(z.Account.Mappings) > 0
}
