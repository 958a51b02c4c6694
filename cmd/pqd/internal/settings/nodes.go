package settings

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
