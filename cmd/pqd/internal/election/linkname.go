//go:build !noelection

package election

import (
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server"
)

// If nats-server renames the method, linking fails. If it renames a variable, the variable here is zero.

//go:linkname lookupRaftNode github.com/nats-io/nats-server/v2/server.(*Server).lookupRaftNode
func lookupRaftNode(s *server.Server, group string) server.RaftNode

//go:linkname minCampaignTimeout github.com/nats-io/nats-server/v2/server.minCampaignTimeout
var minCampaignTimeout time.Duration

//go:linkname maxCampaignTimeout github.com/nats-io/nats-server/v2/server.maxCampaignTimeout
var maxCampaignTimeout time.Duration

// The defaults of nats-server, and what replaces them: a candidate waits for a random time between the two. One server
// is chosen to campaign, so a short wait splits no votes.
const (
	usualMin, usualMax = 100 * time.Millisecond, 800 * time.Millisecond
	shortMin, shortMax = 25 * time.Millisecond, 100 * time.Millisecond
)

// hasten makes candidates wait for a short time. No server runs yet. An error says that this nats-server is not known;
// campaigns then take as long as it decides.
func hasten() error {
	switch {
	case minCampaignTimeout == shortMin && maxCampaignTimeout == shortMax:
		return nil
	case minCampaignTimeout != usualMin || maxCampaignTimeout != usualMax:
		return fmt.Errorf("nats-server %s lets candidates wait for %s to %s: expected %s to %s", server.VERSION, minCampaignTimeout, maxCampaignTimeout, usualMin, usualMax)
	}
	minCampaignTimeout, maxCampaignTimeout = shortMin, shortMax
	return nil
}

// node is this server's member of a Raft group, or nil.
func node(s *server.Server, group string) server.RaftNode { return lookupRaftNode(s, group) }
