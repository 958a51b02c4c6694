package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/protocol"
)

// Each header of a push is a flag.
func TestPushFlags(t *testing.T) {
	t.Parallel()
	all := pflag.NewFlagSet("push", pflag.ContinueOnError)
	new(pushing).flags(all)
	for _, h := range protocol.PushHeaders {
		name := strings.ReplaceAll(h.Word, "_", "-")
		if h.Name == protocol.HeaderMsgID {
			name = "id"
		}
		if all.Lookup(name) == nil {
			t.Errorf("pq push has no flag --%s for %s: write it in cmd/pq/push.go", name, h.Name)
		}
	}
}
