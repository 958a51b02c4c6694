package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/subjects"
)

// rightsTimeout bounds how long the server may take to say what pqd may do.
const rightsTimeout = 5 * time.Second

// userInfo is what a server says of a user. Without permissions it may do
// everything.
type userInfo struct {
	Data struct {
		User        string
		Permissions *struct {
			Publish, Subscribe struct{ Allow []string }
		}
	}
}

// warnOfRights tells when pqd's own user may do more than pqd needs: what pqd can
// be made to do is then more, too. A server that lets everybody in has no users,
// and one that does not say is no reason to warn.
func (d *daemon) warnOfRights(ctx context.Context, nc *nats.Conn) {
	grammar, err := subjects.New(string(d.settings.Prefix))
	if err != nil || !nc.AuthRequired() {
		return
	}
	needed := grammar.Bridge()
	needed.Publish = append(needed.Publish, d.settings.Replies...)
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	var info userInfo
	m, err := nc.RequestWithContext(ctx, subjects.UserInfo, nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &info)
	}
	if err != nil || info.Data.User == "" {
		d.log.Debug("reading the permissions of pqd's NATS user failed", "error", err)
		return
	}
	all := subjects.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	has := all
	if p := info.Data.Permissions; p != nil {
		if len(p.Publish.Allow) > 0 {
			has.Publish = p.Publish.Allow
		}
		if len(p.Subscribe.Allow) > 0 {
			has.Subscribe = p.Subscribe.Allow
		}
	}
	more := has.Beyond(needed)
	if len(more.Publish)+len(more.Subscribe) == 0 {
		return
	}
	d.log.Warn("pqd's NATS user may do more than pqd needs; docs/protocol.md#permissions has what it needs", "user", info.Data.User,
		"publish", strings.Join(more.Publish, " "), "subscribe", strings.Join(more.Subscribe, " "))
}
