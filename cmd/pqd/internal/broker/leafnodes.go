package broker

import (
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// keepAtSite keeps the requests under the prefix, and their events, at this side of each leaf node that the server
// makes: there may be a pqd at the other side, too, and each pqd serves its own clients. Without that a server
// prefers the pqd on its own side, but while that pqd is stopped, its requests go to the pqd at the other side,
// which has another store.
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
