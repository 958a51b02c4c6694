package web

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// The rates of the profiles of blocking and of locks. They cost a percent of processor time
// or less.
const (
	blockRate   = 10 * time.Microsecond
	mutexSample = 10
)

// serveProfiles adds the pages that go tool pprof reads, except the page that shows the command line.
func serveProfiles(mux *http.ServeMux, guard func(http.HandlerFunc) http.Handler) {
	runtime.SetBlockProfileRate(int(blockRate))
	runtime.SetMutexProfileFraction(mutexSample)
	mux.Handle("GET /debug/pprof/", guard(pprof.Index))
	mux.Handle("GET /debug/pprof/profile", guard(pprof.Profile))
	mux.Handle("GET /debug/pprof/trace", guard(pprof.Trace))
}
