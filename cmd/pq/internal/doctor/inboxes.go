package doctor

import (
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// eavesdroppers warns when somebody hears what goes to the inboxes of others: no bridge can tell then
// which clients have stopped waiting. The server says at once, before it answers a ping, that nobody
// listens at an inbox that does not exist.
func (d *doctor) eavesdroppers() {
	nc := d.session.NC
	reply := nc.NewInbox()
	answer, err := nc.SubscribeSync(reply)
	if err != nil {
		return // the connection has ended, which the next check says
	}
	defer func() { _ = answer.Unsubscribe() }() // it ends with the connection at the latest
	for _, below := range asClientsHaveThem {
		if nc.PublishRequest(nc.NewInbox()+below, reply, nil) != nil {
			return
		}
	}
	if d.refused() || !nc.IsConnected() {
		return // this user cannot know
	}
	if nobody, _, err := answer.Pending(); err != nil || nobody == len(asClientsHaveThem) {
		return
	}
	below, _, _ := strings.Cut(reply, ".")
	d.note(warn, "inbox", `somebody subscribes to the inboxes of others, such as "%s.>" or ">", or a gateway hides who listens: waits without an item end after %s, since no bridge sees who has left`,
		below, protocol.MaxWaitUnseen)
}

// asClientsHaveThem are the ends of inboxes: one for each request, for all requests together, and for a wait.
var asClientsHaveThem = []string{"", ".nobody", ".w.nobody"}
