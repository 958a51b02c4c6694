package settings

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// node is a pqd of PQ_CLUSTER: the address at which the other nodes reach its NATS server.
type node struct {
	Host  string
	Port  int
	label string // its name, if that does not depend on the address
}

// routePort is where the NATS servers of a cluster listen for each other.
const routePort = 6222

func (n node) Address() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// Name is the node's name in the cluster.
func (n node) Name() string {
	if n.label != "" {
		return n.label
	}
	if n.Port == routePort {
		return tokenOf(n.Host)
	}
	return tokenOf(n.Address())
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// tokenOf makes a name of an address.
func tokenOf(address string) string {
	return strings.Trim(notInName.ReplaceAllString(address, "-"), "-")
}

// isLoopback reports whether no other machine can reach the node.
func (n node) isLoopback() bool { return isLoopback(n.Host) }

// nodes are all nodes of a cluster.
type nodes []node

const maxNodes = 5 // replicas that a stream can have

func (n *nodes) Decode(value string) error {
	var all nodes
	for address := range strings.SplitSeq(value, ",") {
		label, address, named := strings.Cut(strings.TrimSpace(address), "=")
		if !named {
			label, address = "", label
		} else if tokenOf(label) != label || label == "" || len(label) > 64 {
			return fmt.Errorf("found the name %q: expected <name>=<address> with 1 to 64 letters, digits, - and _", label)
		}
		one := node{Host: address, Port: routePort}
		if host, port, err := net.SplitHostPort(address); err == nil {
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil || number == 0 {
				return fmt.Errorf("found the port %q: expected 1 to 65535", port)
			}
			one = node{Host: host, Port: int(number)}
		}
		one.label = label
		one.Host = strings.Trim(one.Host, "[]")
		if tokenOf(one.Host) == "" || strings.ContainsAny(one.Host, "/@ ") || strings.Contains(one.Host, ":") && net.ParseIP(one.Host) == nil {
			return fmt.Errorf("found the address %q: expected <host> or <host>:<port>", address)
		}
		if slices.ContainsFunc(all, func(o node) bool { return o.Name() == one.Name() || o.Address() == one.Address() }) {
			return fmt.Errorf("found %s twice: expected the address and the name of each node once", address)
		}
		all = append(all, one)
	}
	switch count := len(all); {
	case count%2 == 0:
		return fmt.Errorf("found %d addresses: expected an odd number, because a cluster needs more than half of its nodes, so %d survive no more losses than %d", count, count, count-1)
	case count < 3 || count > maxNodes:
		return fmt.Errorf("found %d addresses: expected 3 or %d", count, maxNodes)
	}
	*n = all
	return nil
}

func (n nodes) Names() (all []string) {
	for _, one := range n {
		all = append(all, one.Name())
	}
	return all
}

func (n nodes) String() string {
	var all []string
	for _, one := range n {
		address := one.Address()
		if one.label != "" {
			address = one.label + "=" + address
		}
		all = append(all, address)
	}
	return strings.Join(all, ",")
}

// nodeName is the value of PQ_NODE.
type nodeName string

func (n *nodeName) Decode(value string) error {
	if len(value) > 64 || tokenOf(value) == "" {
		return errors.New("expected a name or an address of 1 to 64 characters")
	}
	*n = nodeName(value)
	return nil
}

// directory is a path.
type directory string

// Self is this pqd's node of PQ_CLUSTER: the node that PQ_NODE names by its name, its address, its host, or the
// first part of its host name; otherwise the only node with an address of this machine.
func (s *Settings) Self() (node, error) {
	var found []node
	for _, n := range s.Cluster {
		first, _, _ := strings.Cut(n.Host, ".")
		switch want := string(s.Node); {
		case want == n.Host && n.Port == routePort, want == n.Address(), want == n.Name():
			return n, nil
		case want != "" && net.ParseIP(n.Host) == nil && want == first, want == "" && isLocal(n.Host):
			found = append(found, n)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if s.Node == "" {
		return node{}, Usagef("PQ_NODE is not set, and %d of the addresses in PQ_CLUSTER belong to this machine: expected PQ_NODE to be one of %s", len(found), s.Cluster)
	}
	return node{}, Usagef("PQ_NODE=%q: expected one of the addresses in PQ_CLUSTER: %s", string(s.Node), s.Cluster)
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	if name, err := os.Hostname(); err == nil && name == host {
		return true
	}
	ip := net.ParseIP(host)
	addresses, err := net.InterfaceAddrs()
	if ip == nil || err != nil {
		return false
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, is := a.(*net.IPNet)
		return is && network.IP.Equal(ip)
	})
}

// NodeName is the name of this pqd among the nodes.
func (s *Settings) NodeName() (string, error) {
	if len(s.Cluster) > 0 {
		n, err := s.Self()
		return n.Name(), err
	}
	name := string(s.Node)
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", Usagef("PQ_NODE is not set, and the name of this machine is not known: %w", err)
		}
	}
	return tokenOf(name), nil
}

// Shared reports whether the store is replicated: this pqd and others share a log.
func (s *Settings) Shared() bool { return s.Store.Engine == "jetstream" }

// checkCluster finds settings of a replicated store that are missing or contradict each
// other. It completes the store of PQ_CLUSTER.
func (s *Settings) checkCluster() error {
	clustered := len(s.Cluster) > 0
	if clustered && !s.set["PQ_STORE"] {
		s.Store = StoreName{Engine: "jetstream", Place: "pq"}
	}
	var (
		ofCluster = s.among("PQ_CLUSTER_SECRET", "PQ_CLUSTER_CA", "PQ_CLUSTER_CERT", "PQ_CLUSTER_KEY")
		ofStore   = s.among("PQ_NODE", "PQ_DATA", "PQ_STORE_CREDS", "PQ_CLUSTER_SILENCE")
	)
	switch {
	case !clustered && len(ofCluster) > 0:
		return Usagef("%s is for PQ_CLUSTER, which is not set", ofCluster[0])
	case !s.Shared() && len(ofStore) > 0:
		return Usagef("%s is for PQ_CLUSTER and PQ_STORE=jetstream:<name>, found PQ_STORE=%s", ofStore[0], s.Store)
	case !s.Shared() && clustered:
		return Usagef("PQ_CLUSTER keeps the store in its own servers, found PQ_STORE=%s: expected PQ_STORE=jetstream:<name>, or no PQ_STORE", s.Store)
	case !s.Shared():
		return nil
	case !s.Sync:
		return Usagef("PQ_SYNC=false is for the embedded store, found PQ_STORE=%s", s.Store)
	case clustered && s.NATS.URL != "":
		return Usagef("PQ_CLUSTER runs NATS servers, and NATS_URL=%q connects to others: expected one of the two", natsurl.Redact(s.NATS.URL))
	case clustered && s.Store.Stream.sync != "":
		return Usagef("PQ_STORE=%s: the NATS servers of PQ_CLUSTER always sync, expected no sync option", s.Store)
	case clustered && (s.Store.Stream.Replicas != 0 || s.Store.Stream.Domain != "" || s.LogCreds != ""):
		return Usagef("PQ_STORE=%s: with PQ_CLUSTER each node is a replica, in an account of its own: expected no replicas, domain or PQ_STORE_CREDS", s.Store)
	case clustered:
		return s.checkNodes()
	case s.NATS.URL == "":
		return Usagef("PQ_STORE=%s is kept by NATS servers: expected NATS_URL, or PQ_CLUSTER to run them", s.Store)
	case s.Store.Stream.sync == "":
		return Usagef("PQ_STORE=%s does not say whether the NATS servers sync what they acknowledge, and pqd cannot see it: expected ?sync=always for servers with sync_interval: always, "+
			"or ?sync=os for others. Without it a power failure of all servers loses what was acknowledged in the last two minutes", s.Store)
	}
	_, err := s.NodeName()
	return err
}

// MinSecret is how long the secret of a cluster must be.
const MinSecret = 16

// checkNodes checks the settings of PQ_CLUSTER alone.
func (s *Settings) checkNodes() error {
	if _, err := s.Self(); err != nil {
		return err
	}
	if s.Secret == "" {
		return Usagef("PQ_CLUSTER needs PQ_CLUSTER_SECRET: expected a file with a line that all nodes share, such as the output of: openssl rand -hex 32")
	}
	if _, err := s.ClusterSecret(); err != nil {
		return err
	}
	missing := slices.DeleteFunc([]string{"PQ_CLUSTER_CA", "PQ_CLUSTER_CERT", "PQ_CLUSTER_KEY"}, func(name string) bool { return s.set[name] })
	exposed := slices.ContainsFunc(s.Cluster, func(n node) bool { return !n.isLoopback() })
	if some := len(missing) < 3; len(missing) > 0 && (exposed || some) {
		return Usagef("PQ_CLUSTER=%s: expected %s too, because connections between machines are encrypted and both ends show certificates", s.Cluster, strings.Join(missing, " and "))
	}
	_, err := s.RouteTLS()
	return err
}

// ClusterSecret reads the secret.
func (s *Settings) ClusterSecret() (string, error) {
	return secretIn("PQ_CLUSTER_SECRET", s.Secret)
}

// secretIn reads the file that a setting names.
func secretIn(variable string, file ExistingFile) (string, error) {
	text, err := os.ReadFile(string(file))
	if err != nil {
		return "", Usagef("%s: %w", variable, err)
	}
	text = bytes.TrimSpace(text)
	if len(text) < MinSecret || bytes.ContainsAny(text, "\r\n") {
		return "", Usagef("%s=%q: expected a file with one line of at least %d characters", variable, file, MinSecret)
	}
	return string(text), nil
}

// RouteTLS is the TLS configuration by which the nodes know each other, or nil if they are on one machine.
func (s *Settings) RouteTLS() (*tls.Config, error) {
	if s.RouteCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(string(s.RouteCert), string(s.RouteKey))
	if err != nil {
		return nil, BadPair("PQ_CLUSTER_CERT", s.RouteCert, "PQ_CLUSTER_KEY", s.RouteKey, err)
	}
	authorities, err := os.ReadFile(string(s.RouteCA))
	if err != nil {
		return nil, Usagef("PQ_CLUSTER_CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, Usagef("PQ_CLUSTER_CA=%q: expected certificates in PEM format", s.RouteCA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}, nil
}

// CopyDir is the directory of a store's copy. Copies of several stores may lie side by side.
func (s *Settings) CopyDir() string { return filepath.Join(string(s.Data), "copy-"+s.Store.Place) }

// AnotherCopy is the advice about a node's damaged copy.
func (s *Settings) AnotherCopy() string {
	return fmt.Sprintf("with pqd stopped move %s away, and start pqd: it fetches a copy from another node. If no other node has one, pqd salvage <directory> writes out the readable items", s.CopyDir())
}
