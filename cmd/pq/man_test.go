package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// The page for man has each command once, and the flags of all commands once; no line of a text is taken for a macro.
func TestManPage(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if code := run(t.Context(), []string{"help", "--man"}, nil, strings.NewReader(""), &out, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	page := out.String()
	leaves(rootCommand(session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)), func(c *cobra.Command) {
		if heading := "\n.SS pq " + strings.ReplaceAll(session.CommandName(c), "-", `\-`) + "\n"; strings.Count(page, heading) != 1 {
			t.Errorf("expected once: %s", heading)
		}
	})
	if n := strings.Count(page, "NATS_PASSWORD"); n != 1 {
		t.Errorf("NATS_PASSWORD is there %d times", n)
	}
	for line := range strings.Lines(page) {
		if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(".TH .SH .SS .B .BR .nf .fi", macro) {
			t.Errorf("man takes this for a macro: %s", line)
		}
	}
}
