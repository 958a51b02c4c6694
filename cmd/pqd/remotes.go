package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// readRemotes reads where sources find streams.
func (d *daemon) readRemotes() error {
	read, err := d.settings.ReadRemotes()
	if err != nil {
		return err
	}
	remotes := make(map[string]bridge.Remote, len(read))
	for name, r := range read {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		remote := bridge.Remote{Identity: hex.EncodeToString(sum[:]), Domain: r.Domain, Read: make(map[string][]string), Take: r.Queues}
		for stream, may := range r.Streams {
			remote.Read[stream] = may.Read
		}
		login := settings.NATS{
			Creds: settings.ExistingFile(r.Creds), NKey: settings.ExistingFile(r.NKey), User: r.User, Password: r.Password, Token: r.Token,
			CA: settings.ExistingFile(r.CA), Cert: settings.ExistingFile(r.Cert), Key: settings.ExistingFile(r.Key),
		}
		url := r.URL
		if name == settings.Self {
			login, url = d.settings.NATS, d.settings.NATS.URL
		}
		remote.Connect = func(more ...nats.Option) (*nats.Conn, error) {
			options, err := loginOptions(login)
			if err != nil {
				return nil, err
			}
			if url == "" {
				options = append(options, nats.InProcessServer(broker.NewPipeDialer(d.embedded)))
			}
			return nats.Connect(url, slices.Concat(options, more)...)
		}
		remotes[name] = remote
	}
	d.remotes.Store(&remotes)
	return nil
}

// knownRemotes are those that were read last.
func (d *daemon) knownRemotes() map[string]bridge.Remote { return *d.remotes.Load() }

// reloadRemotes reads them again. A wrong file changes nothing.
func (d *daemon) reloadRemotes() {
	file := string(d.settings.Remotes)
	if err := d.readRemotes(); err != nil {
		d.log.Error("reading the remotes again failed: the old ones still hold", "file", file, "error", err)
		return
	}
	d.log.Info("read the remotes again", "file", file)
}
