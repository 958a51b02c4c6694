package main

import (
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
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

func versionCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: session.Arguments(0, 0),
		Short:   "show the version of pq",
		Long:    `Shows the version of pq, as "pq --version" does. "pq info" shows the bridge's.`,
		Example: "  # for a script\n  pq version --json | jq -r .version",
		RunE:    func(*cobra.Command, []string) error { return printVersion(s) },
	}
}

func printVersion(s *session.Session) error {
	return s.Answer(map[string]string{"version": version()}, "pq %s", version())
}
