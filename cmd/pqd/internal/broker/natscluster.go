package broker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// logAccount is the account of the log, and of nothing else. A user who may purge the log
// or append to it controls all queues.
const logAccount = "PQ_CLUSTER"

// clusterName is the name that the NATS servers of PQ_CLUSTER give their cluster.
const clusterName = "pqd"

// identities are the users that pqd adds to its embedded server. Each process makes new ones, so only this process
// can log in as the user of the log.
type identities struct {
	log       nkeys.KeyPair // of the account of the log
	system    nkeys.KeyPair // of the system account
	anonymous nkeys.KeyPair // clients without a login
}

var newIdentities = sync.OnceValues(func() (i identities, err error) {
	for _, user := range []*nkeys.KeyPair{&i.log, &i.system, &i.anonymous} {
		if *user, err = nkeys.CreateUser(); err != nil {
			return i, err
		}
	}
	return i, nil
})

// loginAs is the option to log in as one of the users.
func loginAs(user nkeys.KeyPair) (nats.Option, error) {
	public, err := user.PublicKey()
	if err != nil {
		return nil, err
	}
	return nats.Nkey(public, user.Sign), nil
}

// IsAnonymous reports whether the user stands for clients without a login.
func IsAnonymous(user string) bool {
	who, err := newIdentities()
	if err != nil {
		return false
	}
	public, err := who.anonymous.PublicKey()
	return err == nil && user == public
}

// checkClusterFile refuses a configuration file that sets options which PQ_CLUSTER sets.
func checkClusterFile(o *server.Options, s settings.Settings) error {
	switch {
	case len(s.Cluster) == 0:
	case o.JetStream || o.Cluster.Port != 0 || o.Cluster.Name != "" || len(o.Routes) > 0:
		return settings.Usagef("the file PQ_NATS_CONFIG=%q configures JetStream or a cluster, as PQ_CLUSTER does: expected one of them", s.NATSConfig)
	case len(o.TrustedOperators) > 0 || o.Username != "" || o.Authorization != "" || o.AuthCallout != nil:
		return settings.Usagef("the file PQ_NATS_CONFIG=%q: expected users in accounts or in authorization.users beside PQ_CLUSTER, which adds an account", s.NATSConfig)
	}
	return nil
}

// addCluster makes the server that o configures one of PQ_CLUSTER.
func addCluster(o *server.Options, s settings.Settings) error {
	self, err := s.Self()
	if err != nil {
		return err
	}
	secret, err := s.ClusterSecret()
	if err != nil {
		return err
	}
	const user = "pqd"
	o.ServerName = self.Name()
	o.Cluster = server.ClusterOpts{
		Name: clusterName, Host: self.Host, Port: self.Port,
		Username: user, Password: secret, AuthTimeout: routeTimeout, PoolSize: routePool(logAccount, o.Accounts),
		PingInterval: time.Duration(s.Silence) / 2, MaxPingsOut: routePings,
	}
	if net.ParseIP(self.Host) == nil {
		o.Cluster.Host = "0.0.0.0" // the node's name may not resolve yet when the first node starts
		o.Cluster.Advertise = self.Address()
	}
	if o.Cluster.TLSConfig, err = s.RouteTLS(); err != nil {
		return err
	}
	o.Cluster.TLSTimeout = routeTimeout
	for _, n := range s.Cluster {
		if n != self {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", User: url.UserPassword(user, secret), Host: n.Address()})
		}
	}
	o.JetStream, o.SyncAlways = true, true
	o.StoreDir = filepath.Join(string(s.Data), "nats")
	o.JetStreamMaxMemory = 1 << 20 // all streams are in files
	// Otherwise the server derives a limit from the disk's free room at its start. If the limit is less than the
	// log may take, the server refuses the log.
	o.JetStreamMaxStore = math.MaxInt64 / 2
	o.DisableJetStreamBanner = true
	if err := addLogAccount(o); err != nil {
		return err
	}
	return addSystemUser(o)
}

// A node that loses its power or its network closes no connection. The others send it a
// part of the requests until it fails to answer their pings, and no node answers those
// requests. With nats-server's defaults that takes a minute and a half. The time between pings is half of
// PQ_CLUSTER_SILENCE.
const routePings = 3

// routeTimeout is how many seconds the nodes have to know each other.
const routeTimeout = 5

// addLogAccount adds the account of the log. Clients that could connect without a login
// still can.
func addLogAccount(o *server.Options) error {
	if slices.ContainsFunc(o.Accounts, func(a *server.Account) bool { return a.Name == logAccount }) {
		return settings.Usagef("the file PQ_NATS_CONFIG has an account %s, which is pqd's own beside PQ_CLUSTER", logAccount)
	}
	// An account gets JetStream from a configuration only.
	var parsed server.Options
	if err := parsed.ProcessConfigString("accounts { " + logAccount + " { jetstream: enabled } }"); err != nil {
		return fmt.Errorf("configure the account of the log: %w", err)
	}
	who, err := newIdentities()
	if err != nil {
		return err
	}
	owner, err := who.log.PublicKey()
	if err != nil {
		return err
	}
	anonymous, err := who.anonymous.PublicKey()
	if err != nil {
		return err
	}
	open := len(o.Users) == 0 && len(o.Nkeys) == 0
	o.Accounts = append(o.Accounts, parsed.Accounts...)
	o.Nkeys = append(o.Nkeys, &server.NkeyUser{
		Nkey: owner, Account: parsed.Accounts[0],
		AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}},
	})
	if open {
		o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: anonymous})
		o.NoAuthUser = anonymous
	}
	return nil
}

// addSystemUser adds the user with which pqd asks about the nodes, and replaces one.
func addSystemUser(o *server.Options) error {
	who, err := newIdentities()
	if err != nil {
		return err
	}
	public, err := who.system.PublicKey()
	if err != nil {
		return err
	}
	name := cmp.Or(o.SystemAccount, server.DEFAULT_SYSTEM_ACCOUNT)
	at := slices.IndexFunc(o.Accounts, func(a *server.Account) bool { return a.Name == name })
	if at < 0 {
		at, o.Accounts = len(o.Accounts), append(o.Accounts, server.NewAccount(name))
	}
	o.Nkeys = append(o.Nkeys, &server.NkeyUser{
		Nkey: public, Account: o.Accounts[at],
		AllowedConnectionTypes: map[string]struct{}{"IN_PROCESS": {}},
	})
	return nil
}

// askSystem sends a request to the system account.
func askSystem(ctx context.Context, srv *server.Server, subject string, request, answer any) error {
	who, err := newIdentities()
	if err != nil {
		return err
	}
	own, err := loginAs(who.system)
	if err != nil {
		return err
	}
	nc, err := nats.Connect("", own, nats.Name("pqd system"), nats.InProcessServer(srv), nats.NoReconnect(), nats.Timeout(LogConnectLimit))
	if err != nil {
		return fmt.Errorf("connect to the system account: %w", err)
	}
	defer nc.Close()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	reply, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("ask the NATS servers of the nodes: %w", err)
	}
	return json.Unmarshal(reply.Data, answer)
}

const LogConnectLimit = 5 * time.Second

// otherSecret notes nodes that have another PQ_CLUSTER_SECRET than this node. The servers of such nodes refuse each
// other several times a second, and their log lines name no secret.
type otherSecret struct {
	log *slog.Logger

	mu   sync.Mutex
	node string    // the last node that refused this node
	at   time.Time // when

	strange struct { // servers that this node refused, and that did not refuse it
		since, last time.Time
	}
}

// Lines of the server about a refusal: of this node by another, and of another by this node. The second line has no
// name of a node, but the port of a connection.
var (
	refusedBy = regexp.MustCompile(`^(\S+) - rid:\d+ - Route Error '(?i:authorization violation)'`)
	refusedIt = regexp.MustCompile(`^(\S+) - rid:\d+ - authentication error`)
	cutOff    = regexp.MustCompile(`^\S+ - rid:\d+ - Error flushing: `)
)

const (
	// refusalFor is how long a refusal counts: the servers try again every second.
	refusalFor = 5 * time.Second

	// strangeFor is how long a server has to be refused, without refusing this node, to count as one with another
	// secret.
	strangeFor = 3 * time.Second
)

// reads notes a line of the server's log, and reports whether it is about such a refusal.
func (o *otherSecret) reads(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	known := now.Sub(o.at) <= refusalFor
	if by := refusedBy.FindStringSubmatch(line); by != nil {
		if !known {
			o.log.Error("another node has another secret: expected the same line in the file PQ_CLUSTER_SECRET of each node", "node", by[1])
		}
		o.node, o.at = by[1], now
		return true
	}
	it := refusedIt.FindStringSubmatch(line)
	if it == nil {
		return known && cutOff.MatchString(line)
	}
	s := &o.strange
	if now.Sub(s.last) > refusalFor {
		s.since = now
	}
	s.last = now
	if !s.since.IsZero() && now.Sub(s.since) > strangeFor && !known {
		s.since = time.Time{} // said
		o.log.Warn("refused a node without the secret in PQ_CLUSTER_SECRET", "from", it[1])
	}
	return true
}

// Refusing names the node that has refused this node just now, or returns nil.
func (o *otherSecret) refusing() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.node == "" || time.Since(o.at) > refusalFor {
		return nil
	}
	return fmt.Errorf("the node at %s has another secret than this one, and none is connected: expected the same line in the file PQ_CLUSTER_SECRET of each node", o.node)
}

// closeClients closes the connections of all clients from outside this process.
func closeClients(srv *server.Server) (err error) {
	list, err := srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, c := range list.Conns {
		if c.IP != "" {
			err = errors.Join(err, srv.DisconnectClientByID(c.Cid))
		}
	}
	return err
}

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

// The NATS servers of the nodes remember each other by their names, and the log has its replicas on some of them. A
// server with a new name counts as an additional server, without a replica, until it takes the place of another.

// metaLeader returns the nodes that replicate the list of streams, as their leader sees them.
func metaLeader(ctx context.Context, srv *server.Server) (*server.MetaClusterInfo, error) {
	var answer struct {
		Data struct {
			Meta *server.MetaClusterInfo `json:"meta_cluster"`
		} `json:"data"`
	}
	err := askSystem(ctx, srv, "$SYS.REQ.SERVER.PING.JSZ", server.JSzOptions{LeaderOnly: true}, &answer)
	if err == nil && answer.Data.Meta == nil {
		err = errors.New("the NATS servers of the nodes have no leader")
	}
	return answer.Data.Meta, err
}

// removePeer removes a server for good. If the server is no peer, there is nothing to do.
func removePeer(ctx context.Context, srv *server.Server, meta *server.MetaClusterInfo, name string) error {
	peer := peerOf(name)
	if !slices.ContainsFunc(meta.Replicas, func(p *server.PeerInfo) bool { return p.Peer == peer }) {
		return nil
	}
	var answer server.JSApiMetaServerRemoveResponse
	if err := askSystem(ctx, srv, server.JSApiRemoveServer, server.JSApiMetaServerRemoveRequest{Peer: peer}, &answer); err != nil {
		return err
	}
	switch {
	case answer.Error == nil, server.IsNatsErr(answer.Error, server.JSClusterServerNotMemberErr): // another node has had it removed since
		return nil
	case server.IsNatsErr(answer.Error, server.JSClusterServerMemberChangeInflightErr):
		return errMembersChange
	}
	return &bridge.Refusal{Text: "nothing was done: " + answer.Error.Description}
}

// errMembersChange: a server is being added to those that agree on streams, or removed, and that takes moments.
var errMembersChange = &bridge.Refusal{Text: "nothing was done: the NATS servers of the nodes are about to agree on another change of their members"}

// peerOf is the name by which the servers know a server among themselves. A leader that has started since it heard
// the server last knows only this name.
func peerOf(name string) string {
	const digits, size = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 8
	id := sha256.Sum256([]byte(name))
	for i, b := range id {
		id[i] = digits[int(b)%len(digits)]
	}
	return string(id[:size])
}
