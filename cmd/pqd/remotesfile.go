package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// remotesFile is the file of PQ_REMOTES: the NATS servers where sources find streams.
type remotesFile struct {
	settings settings.Settings
	log      *slog.Logger
	broker   *broker.Server
	latest   atomic.Pointer[map[string]bridge.Remote]
}

// read reads them.
func (r *remotesFile) read() error {
	read, err := r.settings.ReadRemotes()
	if err != nil {
		return err
	}
	all := make(map[string]bridge.Remote, len(read))
	for name, from := range read {
		text, err := json.Marshal(from)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		remote := bridge.Remote{Identity: hex.EncodeToString(sum[:]), Domain: from.Domain, Read: make(map[string][]string), Take: from.Queues}
		for stream, may := range from.Streams {
			remote.Read[stream] = may.Read
		}
		login := settings.NATS{
			Creds: settings.ExistingFile(from.Creds), NKey: settings.ExistingFile(from.NKey), User: from.User, Password: from.Password, Token: from.Token,
			CA: settings.ExistingFile(from.CA), Cert: settings.ExistingFile(from.Cert), Key: settings.ExistingFile(from.Key),
		}
		url := from.URL
		if name == settings.Self {
			login, url = r.settings.NATS, r.settings.NATS.URL
		}
		remote.Connect = func(more ...nats.Option) (*nats.Conn, error) {
			options, err := link.Login(login)
			if err != nil {
				return nil, err
			}
			if from.Inbox != "" {
				options = append(options, nats.CustomInboxPrefix(from.Inbox))
			}
			if url == "" {
				options = append(options, r.broker.Connected())
			}
			return nats.Connect(url, slices.Concat(options, more)...)
		}
		all[name] = remote
	}
	r.latest.Store(&all)
	return nil
}

// known are the remotes as they were read last.
func (r *remotesFile) known() map[string]bridge.Remote { return *r.latest.Load() }

// reload reads them again. A wrong file changes nothing.
func (r *remotesFile) reload() {
	file := string(r.settings.Remotes)
	if err := r.read(); err != nil {
		r.log.Error("reading the remotes again failed: the old ones still hold", "file", file, "error", err)
		return
	}
	r.log.Info("read the remotes again", "file", file)
}
