package main

import (
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
)

// reload reads files again that an operator may have changed. reloadServer makes the embedded server read its configuration file again: users, permissions,
// certificates, limits. A wrong file changes nothing, and neither does one with a change
// that a running server cannot make.
func (d *daemon) reload() {
	if d.settings.Remotes != "" {
		d.reloadRemotes()
	}
	if d.settings.Tenants != "" {
		d.reloadTenants()
	}
	if d.settings.NATSConfig != "" {
		d.reloadServer()
	}
}

func (d *daemon) reloadServer() {
	file := string(d.settings.NATSConfig)
	changed, err := broker.EmbeddedSettings(d.settings)
	if err == nil {
		changed.Secret, changed.Groups = d.secret, &d.groups
		err = changed.Reload(d.embedded, d.log)
	}
	if err != nil {
		d.log.Error("reloading the configuration of the embedded NATS server failed: the old one still holds", "file", file, "error", err)
		return
	}
	d.log.Info("reloaded the configuration of the embedded NATS server", "file", file)
}
