package faults_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagHistory = flag.String("pq.history", "", "judge the history in this file")
)

// However pqd ends while clients push, pop, lease and settle, and whatever connections
// and answers are lost, every guarantee holds: nothing acknowledged is lost, no item is
// delivered twice, no leases overlap, no item is passed over.
func TestEndsUnderLoad(t *testing.T) {
	nightly.Only(t, "bridge/internal/simulation has clients beside faults")
	t.Parallel()
	c := pqd.NewCampaign(t)
	for range pqd.AllPromises {
		c.Long(t, fmt.Sprint("long-", c.Queues), 8, 75, 200, 400)
	}
	c.Short(t, "short", 8, 80, 180)
	t.Logf("faults: %v", c.Faults)
	c.Process.Stop(t)
}

// TestLinearize is TestEndsUnderLoad for as long as -pq.ops says.
func TestLinearize(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops")
	}
	c := pqd.NewCampaign(t)
	done := 0
	for round := 0; done < *pqd.Ops && !t.Failed(); round++ {
		name := fmt.Sprintf("r%d", round)
		if round%3 == 2 {
			done += c.Short(t, name, 40, 100, 500, 900, 1300)
			continue
		}
		const workers, steps = 16, 1000
		done += c.Long(t, name, workers, steps, c.Moments(4, workers*steps)...)
	}
	t.Logf("%d operations, faults: %v", done, c.Faults)
	c.Process.Stop(t)
}

// TestHistory judges a history that a failed test has written.
func TestHistory(t *testing.T) {
	t.Parallel()
	if *flagHistory == "" {
		t.Skip("no -pq.history")
	}
	operations, err := history.Read(*flagHistory)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Judge(t, operations, history.One)
	if len(operations) <= 200 {
		testenv.Search(t, operations)
	}
}
