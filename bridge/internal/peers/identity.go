package peers

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Identity is a bridge's description of itself for other bridges.
type Identity struct {
	ID      string    // of the bridge, from its start to its end
	Prefix  string    // of the subjects that it serves
	StoreID string    // a copy of a store has the id of its original
	Started time.Time // zero for a bridge whose store can be shared
	Site    string    // its name stands in front of another prefix that the bridge serves; "": none
	AtSite  bool      // Prefix is the prefix of the site
	Server  Server
}

// Server is the NATS server that a bridge is connected to.
type Server struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Cluster string `json:"cluster,omitempty"`
}

// serverOf is the present server of a connection.
func serverOf(nc *nats.Conn) Server {
	return Server{ID: nc.ConnectedServerId(), Name: nc.ConnectedServerName(), Cluster: nc.ConnectedClusterName()}
}

// beside reports whether two servers are the same, or of one cluster. Between others there is a
// leaf node or a gateway.
func (s Server) beside(o Server) bool {
	return s.ID == o.ID || s.Cluster != "" && s.Cluster == o.Cluster
}

// Metadata of the NATS service that a bridge is.
const (
	metaPrefix  = "prefix"
	metaStoreID = "store_id"
	metaStarted = "started" // of bridges that have their store for themselves
	metaSite    = "site"    // of bridges with one
	metaServer  = "server_id"
	metaName    = "server_name"
	metaCluster = "cluster" // of a server that has one
)

// Metadata is the identity, without the id, as service discovery shows it.
func (i Identity) Metadata() map[string]string {
	meta := map[string]string{metaPrefix: i.Prefix, metaStoreID: i.StoreID}
	if i.exclusive() {
		meta[metaStarted] = i.Started.UTC().Format(time.RFC3339Nano)
	}
	for name, value := range map[string]string{metaSite: i.Site, metaServer: i.Server.ID, metaName: i.Server.Name, metaCluster: i.Server.Cluster} {
		if value != "" {
			meta[name] = value
		}
	}
	return meta
}

// identitiesOf reads a bridge's description in service discovery: an identity for each prefix.
func identitiesOf(s micro.ServiceIdentity) []Identity {
	meta := s.Metadata
	i := Identity{
		ID: s.ID, Prefix: meta[metaPrefix], StoreID: meta[metaStoreID], Started: startedOf(meta[metaStarted]), Site: meta[metaSite],
		Server: Server{ID: meta[metaServer], Name: meta[metaName], Cluster: meta[metaCluster]},
	}
	if i.Site == "" {
		return []Identity{i}
	}
	return []Identity{i, i.Remote()}
}

// On returns the identity with the present NATS server of a connection.
func (i Identity) On(nc *nats.Conn) Identity {
	i.Server = serverOf(nc)
	return i
}

// Remote is the identity of the bridge under the prefix that other sites use.
func (i Identity) Remote() Identity {
	i.Prefix, i.AtSite = i.Site+"."+i.Prefix, true
	return i
}

// startedOf reads a time. A time that cannot be read counts as none, so such a bridge never goes on standby.
func startedOf(text string) time.Time {
	started, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return started
}

// exclusive reports whether only this bridge's process can open its store.
func (i Identity) exclusive() bool { return !i.Started.IsZero() }
