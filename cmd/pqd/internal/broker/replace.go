package broker

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Missing says that the server has no replica of this stream, or one without this entry, or
// returns nil.
func (r LogReplica) Missing(stream string, entry uint64) error {
	all, err := r.Server.Jsz(&server.JSzOptions{Account: LogAccount, Streams: true})
	if err != nil {
		return err
	}
	for _, a := range all.AccountDetails {
		if at := slices.IndexFunc(a.Streams, func(s server.StreamDetail) bool { return s.Name == stream }); at >= 0 {
			if last := a.Streams[at].State.LastSeq; last < entry {
				return fmt.Errorf("the replica of the log on this node ends at entry %d: it lacks entries up to %d", last, entry)
			}
			return nil
		}
	}
	return fmt.Errorf("this node has no replica of the log, so the loss of another one may stop the store: have it take the place of a node that is lost: pq cluster replace <lost node> %s", r.Server.Name())
}
