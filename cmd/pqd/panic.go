package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// abortOnPanic has a panic end the process by SIGABRT. Go exits with 2, which
// says here that a setting is wrong: a service manager would not start pqd again.
// SIGQUIT still prints the stacks of all goroutines and ends the process; Go
// itself would take seconds for each thread.
func abortOnPanic() {
	debug.SetTraceback("crash")
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		const withStacks = 2
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, withStacks) // it ends all the same
		os.Exit(1)
	}()
}
