package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
)

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
