package broker

import (
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// keepAtSite keeps the requests under the prefix, and their events, at this side of each leaf node that the server
// makes: there may be a pqd at the other side, too, and each serves its own clients. Otherwise a
// server prefers a pqd on its own side, and while that one is stopped its requests go to the
// other one, with another store.
func keepAtSite(o *server.Options, prefix string) {
	all := prefix + ".>"
	for _, remote := range o.LeafNode.Remotes {
		for _, deny := range []*[]string{&remote.DenyImports, &remote.DenyExports} {
			if !slices.Contains(*deny, all) {
				*deny = append(*deny, all)
			}
		}
	}
}
