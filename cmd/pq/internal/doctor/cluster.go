package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

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

// idle says why a request failed, if several pqd keep the store and that is why: none of them serves, or too few are heard.
func (d *doctor) idle(err error) bool {
	nobody := errors.Is(err, nats.ErrNoResponders)
	c := d.known()
	switch {
	case c == nil, !nobody && !show.MostAreSilent(c):
		return false
	case nobody:
		c = show.WithoutEnded(c)
	}
	d.inactive(c)
	return true
}

// inactive says why none of the pqd serves requests.
func (d *doctor) inactive(c *client.Cluster) {
	d.note(bad, "cluster", "%s", cmp.Or(show.Unserved(c), "the active pqd, "+c.Members[0].Node+", begins or ends to serve: ask again in a moment"))
}
