//go:build !noelection

package election

import (
	"testing"
	"time"
)

// The variables of nats-server are the ones that this package knows. If a new version has renamed them, they are zero here; if
// it has others, a campaign takes another time.
func TestKnownServer(t *testing.T) {
	if err := Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// A nats-server with other variables keeps them.
func TestUnknownServer(t *testing.T) {
	low, high := minCampaignTimeout, maxCampaignTimeout
	defer func() { minCampaignTimeout, maxCampaignTimeout = low, high }()
	minCampaignTimeout, maxCampaignTimeout = 0, 7*time.Second
	if err := Prepare(); err == nil {
		t.Error("a nats-server that is not known is not told")
	}
	if minCampaignTimeout != 0 || maxCampaignTimeout != 7*time.Second {
		t.Errorf("candidates of a nats-server that is not known wait for %v to %v", minCampaignTimeout, maxCampaignTimeout)
	}
}
