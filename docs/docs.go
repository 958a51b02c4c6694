// Package docs has the pages of the documentation, as they lie in this folder, for
// programs that show them without a network.
package docs

import "embed"

// Pages are the pages by their paths from this folder, such as runbook.md and
// protocol/push.md. README.md lists them.
//
//go:embed *.md protocol/*.md
var Pages embed.FS
