package broker

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Missing says that the server has no replica of this stream, or returns nil.
func (r LogReplica) Missing(stream string) error {
	all, err := r.Server.Jsz(&server.JSzOptions{Account: logAccount, Streams: true})
	if err != nil {
		return err
	}
	for _, a := range all.AccountDetails {
		if slices.ContainsFunc(a.Streams, func(s server.StreamDetail) bool { return s.Name == stream }) {
			return nil
		}
	}
	return fmt.Errorf("this node has no replica of the log, so the loss of another one may stop the store: have it take the place of a node that is lost: pq cluster replace <lost node> %s", r.Server.Name())
}
