package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

const (
	// laggingMember is how many entries a member may lack: some seconds' worth.
	laggingMember = 10_000

	// fullLog is how many percent of the log may be taken. At 90 pushes are refused.
	fullLog = 80
)

// cluster checks the pqd that keep the store together.
func (d *doctor) cluster(c *client.Cluster) {
	var wrong []string
	var versions []string
	active, epoch := "", uint64(0)
	most := show.MostAreSilent(c)
	if most {
		wrong = append(wrong, show.Silence(c))
	}
	for _, m := range c.Members {
		switch {
		case m.Role == protocol.RoleStopped:
			d.note(bad, "cluster", "%s has stopped: %s", m.Node, m.Reason)
		case m.Role == protocol.RoleSilent && !most:
			wrong = append(wrong, fmt.Sprintf("%s was last heard %s ago: is it running?", m.Node, show.Span(show.Seconds(m.Heard))))
		case m.Lag > laggingMember:
			wrong = append(wrong, fmt.Sprintf("%s lacks %s entries: is its disk slow, or does it catch up?", m.Node, show.Thousands(int64(m.Lag))))
		}
		if m.Role == protocol.RoleActive {
			active, epoch = m.Node, m.Epoch
		}
		if !slices.Contains(versions, m.Version) {
			versions = append(versions, m.Version)
		}
	}
	if len(c.Members) < 2 {
		wrong = append(wrong, "the active pqd hears no other: if it ends, no other one goes on")
	}
	if len(versions) > 1 {
		wrong = append(wrong, "the versions are "+strings.Join(versions, " and ")+": finish the upgrade")
	}
	if percent := show.Filled(c.Log); percent >= fullLog {
		wrong = append(wrong, fmt.Sprintf("the log is %d %% full, and takes no pushes at 90: it forgets what the disks of two pqd have, so start those that are away", percent))
	}
	for _, text := range wrong {
		d.note(warn, "cluster", "%s", text)
	}
	if len(wrong) == 0 && !d.failed {
		d.note(fine, "cluster", "%s is active in epoch %d, %s, the log is %d %% full", active, epoch, show.Many(int64(len(c.Members)-1), "follower"), show.Filled(c.Log))
	}
}

// known is what one of several pqd that keep the store together knows of all, nil if there are
// not several or this user may not ask for it.
func (d *doctor) known() (c *client.Cluster) {
	permitted, err := d.try(func(ctx context.Context) (err error) {
		c, err = d.client.Cluster(ctx)
		return err
	})
	if !permitted || err != nil {
		return nil
	}
	return c
}

// idle says why no bridge answers, if several pqd keep the store and none is active.
func (d *doctor) idle() bool {
	c := d.known()
	if c != nil {
		d.inactive(c)
	}
	return c != nil
}

// inactive says why none of the pqd is active.
func (d *doctor) inactive(c *client.Cluster) {
	var reasons []string
	if silence := show.Silence(c); silence != "" {
		reasons = append(reasons, silence)
	}
	for _, m := range c.Members {
		if m.Reason != "" && m.Role != protocol.RoleSilent {
			reasons = append(reasons, m.Node+" says: "+m.Reason)
		}
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "they wait for each other, which takes some seconds")
	}
	d.note(bad, "cluster", "none of %d pqd is active: %s", len(c.Members), strings.Join(reasons, "; "))
}
