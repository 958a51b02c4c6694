package request

import (
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// act logs an administrator's change, with what the request says of its sender. Each verb is a message of its
// own, so the log leaves out repetitions only of a verb that is repeated without end for one queue or tenant.
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

// sender is what came with a request about its sender. It proves nothing: a client may name the inbox of another one
// as its reply subject, and send the headers of a NATS server and of the HTTP gateway itself.
func sender(r *Request) (args []any) {
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, fdbpq.ReasonText(value))
		}
	}
	add("reply_prefix", r.Msg.Reply[:max(0, strings.LastIndexByte(r.Msg.Reply, '.'))]) // without the part for this request alone
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
