package main

import (
	"runtime/debug"
	"strings"
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
