package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/subjects"
)

// rightsTimeout bounds the wait for the server's answer about pqd's permissions.
const rightsTimeout = 5 * time.Second

// userInfo is a server's answer about a user. A user without permissions may do
// everything.
type userInfo struct {
	Data struct {
		User        string
		Permissions *struct {
			Publish, Subscribe struct{ Allow []string }
		}
	}
}

// rights checks the rights of pqd's user at the NATS server.
type rights struct {
	settings settings.Settings
	log      *slog.Logger
	nc       *nats.Conn
}

// warnOfOpenServer warns when other machines need no login at the NATS server of NATS_URL.
func (r *rights) warnOfOpenServer() {
	host, _, err := net.SplitHostPort(r.nc.ConnectedAddr())
	if r.settings.NATS.URL == "" || err != nil || (settings.Address{Host: host}).IsLoopback() || r.settings.Unprotected.Accepts(settings.DoorNATS) {
		return // pqd refuses to open its own server
	}
	r.log.Warn("the NATS server asks for no login: everybody who reaches it may do everything to all queues. Give it users, or name the risk with PQ_UNPROTECTED=nats", "server", natsurl.Of(r.nc))
}

// warn warns when pqd's user has permissions that pqd does not need: a defect of pqd could then do more harm. It
// does not warn about a server without users, about a server whose only user serves all clients, or about a server
// that does not answer.
func (r *rights) warn(ctx context.Context) {
	grammar, err := r.settings.Grammar()
	if err != nil || r.settings.OwnLogin() {
		return
	}
	if !r.nc.AuthRequired() {
		r.warnOfOpenServer()
		return
	}
	needed := grammar.Bridge()
	needed.Publish = append(needed.Publish, r.settings.Replies...)
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	var info userInfo
	m, err := r.nc.RequestWithContext(ctx, subjects.UserInfo, nil)
	if err == nil {
		err = json.Unmarshal(m.Data, &info)
	}
	if err != nil || info.Data.User == "" {
		r.log.Debug("reading the permissions of pqd's NATS user failed", "error", err)
		return
	}
	if broker.IsAnonymous(info.Data.User) {
		return // a server without users
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
	r.log.Warn("pqd's NATS user may do more than pqd needs; docs/protocol.md#permissions has what it needs", "user", info.Data.User,
		"publish", strings.Join(more.Publish, " "), "subscribe", strings.Join(more.Subscribe, " "))
}
