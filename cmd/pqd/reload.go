package main

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
