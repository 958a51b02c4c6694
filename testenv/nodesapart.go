package testenv

import (
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
)

// routePort is where the NATS servers of nodes listen for each other.
const routePort = "6222"

// NewNodesApart is NewNodes with a network between the nodes, which a test makes slow while they run. Clients reach each of them
// as ever.
func NewNodesApart(t testing.TB, random *rand.Rand, env ...string) (*Nodes, *Ways) {
	t.Helper()
	n := newNodes(t, func([]string) []string { return env })
	ways := &Ways{random: random}
	// The servers tell each other where they see a connection come from: that is an address at which the proxy in
	// the opposite direction listens, so that none goes around the proxies.
	var door [clusterSize][clusterSize]string
	for from := range n.All {
		copy(door[from][:], freeHosts(t, clusterSize))
	}
	for from, p := range n.All {
		var all []string
		for to, other := range n.All {
			at := other.host()
			if from != to {
				at = door[from][to]
				proxy := &Proxy{target: net.JoinHostPort(other.host(), routePort), ways: ways, source: &net.TCPAddr{IP: net.ParseIP(door[to][from])}}
				proxy.begin(t, net.JoinHostPort(at, routePort))
			}
			all = append(all, other.Node()+"="+at)
		}
		slices.Sort(all)
		p.Change("PQ_CLUSTER=" + strings.Join(all, ","))
	}
	n.begin(t)
	return n, ways
}
