package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// What is recorded of waiting, for a percent of processor time or less: each
// wait in proportion to its length, and one in so many contended locks.
const (
	blockRate   = 10 * time.Microsecond
	mutexSample = 10
)

// serveProfiles adds the pages that go tool pprof reads. The command line stays
// out of them: it is for the operator alone.
func serveProfiles(mux *http.ServeMux, names hostNames) {
	runtime.SetBlockProfileRate(int(blockRate))
	runtime.SetMutexProfileFraction(mutexSample)
	mux.Handle("GET /debug/pprof/", names.guard(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", names.guard(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", names.guard(http.HandlerFunc(pprof.Trace)))
}
