package main

import (
	"runtime/debug"
	"strings"
)

// release is set by the linker in released builds: -X main.release=1.2.3.
var release string

// version is the version of this build.
func version() string {
	if release != "" {
		return strings.TrimPrefix(release, "v")
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.0.0-devel"
}

func versionCommand() *command {
	return &command{
		name: "version", max: 0,
		short: "show the version of pq",
		long:  `Shows the version of pq. "pq info" has that of the bridge.`,
		run: func(s *session, _ []string) error {
			return s.answer(map[string]string{"version": version()}, "pq %s", version())
		},
	}
}
