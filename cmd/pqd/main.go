// Command pqd is the daemon. It answers requests for priority queues on NATS subjects and keeps the queues in a
// store. Without settings it runs a NATS server on 127.0.0.1:4222 and keeps its data in ./pq-data.
//
// It logs one line "ready" when it begins to answer. At SIGTERM and SIGINT it stops in order: it answers the
// requests that it has received. A second signal ends it at once. At SIGHUP it reads the files of PQ_NATS_CONFIG,
// PQ_REMOTES and PQ_TENANTS again.
//
// The exit code is 0 after a stop, 2 when the settings are wrong, and 1 after any other failure. A failed disk of the
// store ends pqd at once, with 1, and a panic by SIGABRT.
//
// Where things are: the daemon here starts parts and stops them. The packages below hold the parts: settings and process
// of pqd itself; broker and link, its NATS server and connections; store and room, how a store opens and what is refused
// when its disk is full; node, a pqd that keeps a store together with others, and election, which replaces a leader of their
// log; web and health, what it has over HTTP; commands, what pqd does without serving.
package main

import (
	"os"
	"runtime"
	"syscall"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
)

func main() {
	process.AbortOnPanic()
	syscall.Umask(int(process.NotOthers)) // for all files of the store, of backups and of the NATS server
	ctx := untilSignal()
	ballast := process.NewBallast()
	done := make(chan error, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	code := exitCode(process.Await(ctx, done, process.ShutdownLimit))
	runtime.KeepAlive(ballast)
	os.Exit(code)
}
