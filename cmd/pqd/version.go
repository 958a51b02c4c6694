package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// release is set by the linker in released builds: -X main.release=1.2.3.
var release string

// version is the version of this build, always in the form that NATS services
// must have, MAJOR.MINOR.PATCH with an optional suffix.
func version() string {
	if release != "" {
		return strings.TrimPrefix(release, "v")
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.0.0-devel"
}

// buildInfo is the metric that says which build this is.
func buildInfo() prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pq_build_info", Help: "1, with the version of pqd and of Go.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	})
	build.Set(1)
	return build
}
