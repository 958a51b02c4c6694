package main

import "github.com/pqbridge/pqbridge/bridge"

// readTenants reads the quotas of tenants.
func (d *daemon) readTenants() error {
	read, err := d.settings.ReadTenants()
	if err == nil {
		d.tenants.Store(read)
	}
	return err
}

// quotas are those of a tenant, as they were read last.
func (d *daemon) quotas(tenant string) bridge.Quotas {
	return bridge.Quotas(d.tenants.Load().Of(tenant))
}

// reloadTenants reads them again. A wrong file changes nothing.
func (d *daemon) reloadTenants() {
	file := string(d.settings.Tenants)
	if err := d.readTenants(); err != nil {
		d.log.Error("reading the quotas of tenants again failed: the old ones still hold", "file", file, "error", err)
		return
	}
	d.log.Info("read the quotas of tenants again", "file", file)
}
