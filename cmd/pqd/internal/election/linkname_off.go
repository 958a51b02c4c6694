//go:build noelection

package election

import "github.com/nats-io/nats-server/v2/server"

func hasten() error { return nil }

func node(*server.Server, string) server.RaftNode { return nil }
