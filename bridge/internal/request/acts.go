package request

import (
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// act logs an administrator's change, with the data that NATS has about the sender. Each verb is a message of its
// own, so the log leaves out repetitions only of a verb that clients repeat without end.
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

// sender is the data of NATS, and of the HTTP gateway, about the sender of a request. Clients can send the same: it
// proves nothing.
func sender(r *Request) (args []any) {
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, fdbpq.ReasonText(value))
		}
	}
	add("inbox", r.Msg.Reply[:max(0, strings.LastIndexByte(r.Msg.Reply, '.'))]) // without the part for this request alone
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

// requestInfo is the header in which a NATS server describes a client of another account, if the import shares
// that.
const requestInfo = "Nats-Request-Info"
