package process

import (
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// AbortOnPanic makes a panic end the process by SIGABRT. By default Go exits with 2, pqd's
// code for wrong settings, and a service manager would not start pqd again. SIGQUIT still
// prints the stacks of all goroutines and ends the process. Go's own handler would then
// take seconds for each thread.
func AbortOnPanic() {
	debug.SetTraceback("crash")
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		const withStacks = 2
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, withStacks) // pqd ends whether or not this succeeds
		os.Exit(1)
	}()
}
