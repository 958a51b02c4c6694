//go:build fdb

package streams_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

// A stream becomes a queue of three bridges on FoundationDB while they are killed: each message once, in order, in both modes.
func TestSourceOfSeveralBridges(t *testing.T) {
	for _, mode := range []string{"copy", "take"} {
		t.Run(mode, func(t *testing.T) {
			server := jetStream(t)
			setting, _ := remotes(t, map[string]any{"hub": map[string]any{"url": server.URL(), "streams": reads("ORDERS", "jobs")}})
			store := fdbtest.Shared(t).Setting()
			var bridges []*testenv.Process
			var urls []string
			for range 3 {
				p := testenv.Daemon(t, store, setting)
				bridges, urls = append(bridges, p), append(urls, p.URL)
			}
			random := pqd.Seeded(t)
			c := newCrossing(t, mode, "hub", server.URL(), strings.Join(urls, ","), 1)
			c.beside(cmp.Or(*pqd.Kills, 6), func(i int) {
				killed := bridges
				if i%3 > 0 {
					killed = bridges[random.IntN(3):][:1]
				}
				for _, p := range killed {
					p.Kill(t)
				}
				for _, p := range killed {
					p.Start(t)
				}
			})
		})
	}
}

// Links have each item once, in order, on FoundationDB too.
func TestLinkBesideKillsOnFoundationDB(t *testing.T) {
	linkPQD(t, func(edge string) string { return edge }, fdbtest.Shared(t).Setting).besideKills()
}
