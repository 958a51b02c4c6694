package fdbpq

// SetZoneData has the process take its zones of the tz database for another version.
func (s *Store) SetZoneData(version string) { s.runner.zoneData = version }
