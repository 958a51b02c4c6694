package main

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// A tenant sees what it has and was charged, beside its quotas, and nothing of the store.
func TestDescribeTenant(t *testing.T) {
	t.Parallel()
	system := client.System{Prefix: "pq.acme", Tenant: &protocol.Tenant{
		Name: "acme", Queues: 2, Items: 1234, Bytes: 2048, Charged: 5000,
		Quotas: protocol.Quotas{Queues: 1000, Bytes: 4096, Requests: 500},
	}}
	got := describeSystem(&system)
	for _, want := range []string{"Tenant", "acme", "2 of 1,000\n", "1,234\n", "2.0 KiB of 4.0 KiB\n", "5,000 requests\n", "up to 500 requests a second\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
	if strings.Contains(got, "Store") {
		t.Errorf("a tenant sees a store:\n%s", got)
	}
	system.Tenant = nil
	if got := describeSystem(&system); strings.Contains(got, "Charged") {
		t.Errorf("nobody was charged:\n%s", got)
	}
}
