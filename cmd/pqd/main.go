// Command pqd is the daemon: it answers requests for priority queues on NATS
// subjects and keeps the queues in a store. Without settings it runs a NATS
// server of its own on 127.0.0.1:4222 and keeps its data in ./pq-data.
//
// It logs one line "ready" when it answers. SIGTERM and SIGINT end it in order:
// what was acknowledged stays, what was not gets an answer that says so. It
// exits with 0 then, with 2 when its settings are wrong, and with 1 after any
// other failure; a bug that Go finds ends it by SIGABRT. A second signal ends it at
// once. SIGHUP has the embedded NATS server read its configuration file again, and
// ends pqd when there is none.
package main

import (
	"os"
	"runtime"
	"syscall"
)

func main() {
	abortOnPanic()
	syscall.Umask(int(notOthers)) // for whatever is made: the store, backups, what the NATS server keeps
	ctx := untilSignal()
	ballast := newBallast()
	done := make(chan error, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	code := exitCode(await(ctx, done, shutdownLimit))
	runtime.KeepAlive(ballast)
	os.Exit(code)
}
