package main

import (
	"os"
	"os/signal"
	"syscall"
)

// Terminals send SIGHUP when they close, operators when they have changed a
// configuration. When the embedded NATS server has a configuration file, pqd reads it
// again. Otherwise pqd stops as for SIGTERM.

// ends are the signals that stop pqd.
func ends() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if os.Getenv("PQ_NATS_CONFIG") == "" {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// hangups delivers SIGHUP when it means to reload, until stop is called.
func (d *daemon) hangups() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	if d.settings.NATSConfig != "" {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() { signal.Stop(signals) }
}

// reload has the embedded server read its configuration file again: users,
// permissions, certificates, limits. A file that is wrong, or changes what a
// running server cannot change, changes nothing.
func (d *daemon) reload() {
	file := string(d.settings.NATSConfig)
	changed, err := embeddedSettings(d.settings)
	if err == nil {
		err = changed.reload(d.embedded, d.log)
	}
	if err != nil {
		d.log.Error("reloading the configuration of the embedded NATS server failed: the old one stays in force", "file", file, "error", err)
		return
	}
	d.log.Info("reloaded the configuration of the embedded NATS server", "file", file)
}
