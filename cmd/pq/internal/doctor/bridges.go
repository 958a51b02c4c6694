package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/protocol"
)

// serviceName is the name of bridges in service discovery.
const serviceName = "pq"

// gatherFor is how long bridges have to answer, and after each how long others.
const (
	gatherFor  = time.Second
	gatherMore = 200 * time.Millisecond
)

// bridges checks which bridges answer.
func (d *doctor) bridges() bool {
	s := d.session
	found, err := d.discover()
	if err != nil {
		d.note(warn, "discovery", "%v: bridges cannot be counted", err)
	}
	ours := slices.DeleteFunc(slices.Clone(found), func(b micro.Info) bool {
		return b.Metadata["prefix"] != s.Global.Prefix && b.Metadata["site"]+"."+b.Metadata["prefix"] != s.Global.Prefix
	})
	var system *client.System
	permitted, err := d.try(func(ctx context.Context) (err error) {
		system, err = d.client.System(ctx)
		return err
	})
	switch {
	case !permitted:
		d.note(fine, "bridge", "not known: this user may not ask for it")
		return true
	case errors.Is(err, nats.ErrNoResponders) && len(found) > 0:
		d.note(bad, "bridge", "none has the prefix %s, but there is %s: use that with --prefix or PQ_PREFIX", s.Global.Prefix, prefixes(found))
		return false
	case errors.Is(err, nats.ErrNoResponders) && d.idle(err):
		return false
	case errors.Is(err, nats.ErrNoResponders):
		d.note(bad, "bridge", "none is connected to this NATS server (or account): start pqd with NATS_URL=%s, or connect to the server that pqd runs itself", natsurl.Of(s.NC))
		return false
	case err != nil && d.idle(err): // beside NATS servers of its own an active pqd may serve alone
		d.note(bad, "store", "%v: if that goes on when the others are back, look at the log of pqd, at its disk, or at FoundationDB", err)
		return false
	case errors.Is(err, client.ErrUnavailable):
		d.note(bad, "store", "%v: look at the log of pqd, at its disk, or at FoundationDB", err)
		if c := d.known(); c != nil && show.Silence(c) != "" {
			d.note(bad, "cluster", "%s", show.Silence(c))
		}
		return false
	case err != nil:
		d.note(bad, "bridge", "%v: is it busy, or is its store slow? pqd's log and /metrics say more", err)
		return false
	}
	d.note(fine, "bridge", "version %s, prefix %s, up %s, store %s", system.Version, system.Prefix, show.Span(show.Seconds(system.Uptime)), system.Store)
	for _, damage := range system.Damage {
		d.note(bad, "damage", "%s: see \"The store is damaged\" in docs/runbook.md, which pq help runbook prints", damage)
	}
	d.disk(system.Disk)
	if system.Cluster != nil {
		d.cluster(system.Cluster)
	}
	// Under the name of a site there is that site alone, wherever it is. Under the prefix there are others, too.
	far := slices.DeleteFunc(slices.Clone(ours), func(b micro.Info) bool {
		return b.Metadata["store_id"] == system.StoreID || b.Metadata["prefix"] != s.Global.Prefix || d.beside(b)
	})
	ours = slices.DeleteFunc(ours, func(b micro.Info) bool {
		return slices.ContainsFunc(far, func(f micro.Info) bool { return f.ID == b.ID })
	})
	if at := slices.IndexFunc(ours, func(b micro.Info) bool { return b.Metadata["store_id"] == system.StoreID && !d.beside(b) }); at >= 0 {
		d.note(fine, "sites", "the bridge is at the NATS server %s, behind a leaf node or a gateway", ours[at].Metadata["server_name"])
	}
	d.versions(d.version, ours, system)
	d.stores(ours)
	d.sites(far)
	d.sameNames(found)
	return true
}

// littleFree is the part of a disk below which doctor warns.
const littleFree = 0.15

// disk tells how much room the store has.
func (d *doctor) disk(disk *client.Disk) {
	if disk == nil {
		return // nobody knows
	}
	text := fmt.Sprintf("%s of %s are free where the store is", show.LimitSize(disk.Free), show.LimitSize(disk.Size))
	switch {
	case disk.EndsOnly:
		d.note(bad, "disk", "%s, so only remove, purge and delete are served: purge queues, or make room at once", text)
	case disk.Free < disk.MinFree:
		d.note(bad, "disk", "%s, and %s are to stay free (PQ_MIN_FREE), so pushes are refused: make room", text, show.LimitSize(disk.MinFree))
	case float64(disk.Free) < littleFree*float64(disk.Size):
		d.note(warn, "disk", "%s: make room before it is full", text)
	default:
		d.note(fine, "disk", "%s", text)
	}
}

// versions compares the versions of pq and the bridges.
func (d *doctor) versions(pq string, ours []micro.Info, system *client.System) {
	var others []string
	for _, b := range ours {
		if b.Version != system.Version && !slices.Contains(others, b.Version) {
			others = append(others, b.Version)
		}
	}
	switch {
	case len(others) > 0:
		d.note(warn, "versions", "bridges of versions %s and %s answer side by side: finish the upgrade", system.Version, strings.Join(others, ", "))
	case system.Version != pq && unreleased(system.Version) && unreleased(pq):
		d.note(fine, "versions", "pq %s, bridge %s: builds between releases", pq, system.Version)
	case system.Version != pq:
		d.note(warn, "versions", "pq is version %s, the bridge %s: use the same if something does not fit", pq, system.Version)
	default:
		d.note(fine, "versions", "pq and %s: %s", show.Many(int64(max(1, len(ours))), "bridge"), system.Version)
	}
}

// unreleased reports whether a build has no release's version. Such versions say little: go
// run and go build give one checkout different ones.
func unreleased(version string) bool { return strings.HasPrefix(version, "0.0.0-") }

// stores checks that all bridges have one store. Otherwise each has a part of every queue.
func (d *doctor) stores(ours []micro.Info) {
	byID := make(map[string]bool)
	for _, b := range ours {
		byID[b.Metadata["store_id"]] = true
	}
	if len(byID) > 1 {
		d.note(bad, "stores", "%d bridges with one prefix have %d different stores, and each a share of every queue: give them prefixes of their own, or one store", len(ours), len(byID))
	}
}

func prefixes(found []micro.Info) string {
	var all []string
	for _, b := range found {
		if p := b.Metadata["prefix"]; !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return strings.Join(all, ", ")
}

// discover asks all bridges for their identity.
func (d *doctor) discover() ([]micro.Info, error) {
	nc := d.session.NC
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection at the latest
	ask, err := micro.ControlSubject(micro.InfoVerb, serviceName, "")
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(ask, inbox, nil); err != nil {
		return nil, err
	}
	if d.refused() {
		return nil, errors.New("this user may not ask for services (" + ask + ")")
	}
	var found []micro.Info
	for wait := gatherFor; ; wait = gatherMore {
		ctx, cancel := context.WithTimeout(d.session.Context, wait)
		m, err := sub.NextMsgWithContext(ctx)
		cancel()
		if err != nil {
			return found, nil // no more, or none at all
		}
		var info micro.Info
		if json.Unmarshal(m.Data, &info) == nil && info.Name == serviceName {
			found = append(found, info)
		}
	}
}

// sites checks that bridges at other NATS servers, which a leaf node or a gateway connects with this
// one, get no requests of this site.
func (d *doctor) sites(far []micro.Info) {
	if len(far) == 0 {
		return
	}
	cross, known := d.crosses(far)
	var names []string
	for _, b := range far {
		site, server := b.Metadata["site"], b.Metadata["server_name"]
		switch {
		case cross[b.ID]:
			d.note(bad, "sites", "the bridge %s at the NATS server %s has another store (%s), and requests under %s reach it, too: have the leaf node deny_imports and deny_exports [\"%s.>\"], see docs/topologies.md; beside a gateway use another prefix",
				b.ID, server, b.Metadata["store_id"], d.session.Global.Prefix, d.session.Global.Prefix)
		case site == "":
			names = append(names, fmt.Sprintf("one at the NATS server %s without a name (PQ_SITE)", server))
		default:
			names = append(names, fmt.Sprintf("%s (--prefix %s.%s)", site, site, b.Metadata["prefix"]))
		}
	}
	if !known {
		d.note(warn, "sites", "whether requests of this site reach others is not known: this user may not hear events")
	}
	if slices.Sort(names); len(names) > 0 {
		d.note(fine, "sites", "others are %s", strings.Join(names, ", "))
	}
}

// sameNames checks that no two sites have one name.
func (d *doctor) sameNames(found []micro.Info) {
	stores := make(map[string]string) // by the prefix of a site
	for _, b := range found {
		site := b.Metadata["site"]
		if site == "" {
			continue
		}
		name := site + "." + b.Metadata["prefix"]
		if other, has := stores[name]; has && other != b.Metadata["store_id"] {
			d.note(bad, "sites", "two sites with stores of their own are called %s: give each pqd another PQ_SITE", site)
		}
		stores[name] = b.Metadata["store_id"]
	}
}

// crosses asks bridges for the proof that they can publish where this site's events are: what
// they publish under the prefix arrives here, so requests from here arrive there. known is false if this user may not
// look.
func (d *doctor) crosses(far []micro.Info) (cross map[string]bool, known bool) {
	nc, prefix := d.session.NC, d.session.Global.Prefix
	came := make(chan *nats.Msg, len(far))
	sub, err := nc.ChanSubscribe(prefix+"._sys.event.bridge", came)
	if err != nil || d.refused() {
		return nil, false
	}
	defer func() { _ = sub.Unsubscribe() }() // it ends with the connection at the latest
	nonce := nuid.Next()
	question, err := json.Marshal(map[string]string{"prefix": prefix, "nonce": nonce})
	if err != nil {
		return nil, false
	}
	for _, b := range far {
		subject, err := micro.ControlSubject(micro.InfoVerb, serviceName, b.ID)
		if err == nil {
			err = nc.PublishRequest(subject, nc.NewInbox(), question)
		}
		if err != nil {
			return nil, false
		}
	}
	cross = make(map[string]bool)
	for late := time.After(gatherFor); len(cross) < len(far); {
		select {
		case m := <-came:
			var proof struct{ Type, Nonce, ID string }
			if json.Unmarshal(m.Data, &proof) == nil && proof.Type == protocol.EventTypePrefix+"bridge" && proof.Nonce == nonce {
				cross[proof.ID] = true
			}
		case <-late:
			return cross, !d.refused()
		}
	}
	return cross, true
}

// beside tells the bridges at this NATS server or its cluster from those at others.
func (d *doctor) beside(b micro.Info) bool {
	nc, server, cluster := d.session.NC, b.Metadata["server_id"], b.Metadata["cluster"]
	return server == nc.ConnectedServerId() || cluster != "" && cluster == nc.ConnectedClusterName()
}

// wrongClock is a difference of two clocks that people notice.
const wrongClock = 2 * time.Second

// clock compares this machine's clock with the bridge's, which showed pushed at some time from began
// to ended: a push takes long while another pqd takes over.
func (d *doctor) clock(pushed, began, ended time.Time) {
	behind, ahead := began.Sub(pushed), pushed.Sub(ended)
	switch {
	case behind > wrongClock:
		d.note(warn, "clock", "the bridge's is %s behind this one: times such as --not-before go by the bridge's; run NTP on both machines", show.Span(behind))
	case ahead > wrongClock:
		d.note(warn, "clock", "the bridge's is %s ahead of this one: times such as --not-before go by the bridge's; run NTP on both machines", show.Span(ahead))
	default:
		d.note(fine, "clock", "the bridge's agrees with this one")
	}
}
