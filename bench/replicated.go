package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Systems whose parts replicate what they are given. All parts run on this machine, so
// they share its processors and its disk: three machines of this kind do more. They run
// while others are measured, too, because they hold elections after they were stopped.

// nodes is how many parts such a system has.
const nodes = 3

// startNodes starts the parts of a system, each with a directory of its own. others are
// the addresses of all parts for each other.
func (s *server) startNodes(node func(i int, client string, others []string, dir string) command) error {
	var clients, others []string
	for range nodes {
		for _, all := range []*[]string{&clients, &others} {
			addr, err := freeAddr()
			if err != nil {
				return err
			}
			*all = append(*all, addr)
		}
	}
	s.addr = strings.Join(clients, ",")
	for i := range nodes {
		name := strconv.Itoa(i + 1)
		dir := filepath.Join(s.dir, name)
		p, err := launch(s.name+" "+name, dir, node(i, clients[i], others, dir))
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
	}
	return nil
}

// startThreePQD starts three pqd that keep one store together.
func startThreePQD(_ context.Context, at *site, s *server) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte("of a store that is thrown away\n"), 0o600); err != nil {
		return err
	}
	web, err := freeAddr()
	if err != nil {
		return err
	}
	return s.startNodes(func(i int, client string, others []string, dir string) command {
		pages := loopback + ":0"
		if i == 0 {
			s.pages, pages = web, web
		}
		return command{path: at.pqd, env: []string{
			"PQ_STORE=jetstream:bench", "PQ_CLUSTER=" + strings.Join(others, ","), "PQ_NODE=" + others[i], "PQ_DATA=" + dir,
			"PQ_CLUSTER_SECRET=" + secret, "PQ_LISTEN=" + client, "PQ_HTTP=" + pages,
		}}
	})
}

// startThreeJS starts a cluster of NATS servers with JetStream, which sync everything.
func startThreeJS(_ context.Context, at *site, s *server) error {
	return s.startNodes(func(i int, client string, others []string, dir string) command {
		return command{path: at.self, args: []string{"jetstream", client, dir, "always", others[i], strings.Join(others, ",")}}
	})
}

// joinCluster makes a NATS server one of those that listen for each other at these
// addresses.
func joinCluster(o *natsserver.Options, self, all string) error {
	host, port, err := net.SplitHostPort(self)
	if err != nil {
		return err
	}
	o.Cluster.Name, o.Cluster.Host = "bench", host
	if o.Cluster.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	others := slices.DeleteFunc(strings.Split(all, ","), func(other string) bool { return other == self })
	o.Routes = natsserver.RoutesFromStr("nats://" + strings.Join(others, ",nats://"))
	if len(o.Routes) == 0 {
		return fmt.Errorf("found the addresses %s: expected others than %s", all, self)
	}
	o.ServerName = "bench-" + port
	return nil
}
