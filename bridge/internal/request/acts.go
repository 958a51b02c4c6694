package request

import (
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// act has the log tell what an administrator has done, with what NATS tells of the sender. Each verb is a message of its own: of
// one that clients repeat without end the log leaves out most, and of no other.
func (re *Responder) act(r *Request, details []any) {
	args := []any{"queue", r.Subject.Queue}
	for _, of := range []struct{ name, value string }{{"key", r.Subject.Key}, {"schedule", r.Subject.Schedule}, {"source", r.Subject.Source}, {"link", r.Subject.Link}} {
		if of.value != "" {
			args = append(args, of.name, of.value)
		}
	}
	args = append(append(args, details...), sender(r)...)
	re.Log.Info("administrative act: "+r.Subject.Verb.String(), args...)
}

// sender is what NATS, and the gateway of HTTP, tell of who has sent a request. Clients can say the same: it is no proof.
func sender(r *Request) (args []any) {
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, fdbpq.ReasonText(value))
		}
	}
	add("inbox", r.Msg.Reply[:max(0, strings.LastIndexByte(r.Msg.Reply, '.'))]) // without what is of this request alone
	var client struct {
		Account string `json:"acc"`
		User    string `json:"user"`
		Name    string `json:"name"`
		Host    string `json:"host"`
	}
	if json.Unmarshal([]byte(r.Msg.Header.Get(requestInfo)), &client) == nil { // anything else is not the server's
		add("account", client.Account)
		add("user", client.User)
		add("client", client.Name)
		add("host", client.Host)
	}
	add("address", r.Msg.Header.Get(protocol.HeaderForwarded))
	return args
}

// requestInfo is the header in which a NATS server tells of a client of another account, if the import shares that.
const requestInfo = "Nats-Request-Info"
