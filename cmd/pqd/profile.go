package main

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// The rates of the profiles of blocking and of locks. They cost a percent of processor time
// or less.
const (
	blockRate   = 10 * time.Microsecond
	mutexSample = 10
)

// serveProfiles adds the pages that go tool pprof reads. It leaves out the one that shows
// the command line.
func serveProfiles(mux *http.ServeMux, names settings.HostNames) {
	runtime.SetBlockProfileRate(int(blockRate))
	runtime.SetMutexProfileFraction(mutexSample)
	mux.Handle("GET /debug/pprof/", names.Guard(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", names.Guard(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", names.Guard(http.HandlerFunc(pprof.Trace)))
}
