package calendar

import (
	"archive/zip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// archive is the tz database, one file a zone, as the distribution of Go has it in lib/time. Package time would
// prefer the zones of the machine and of $ZONEINFO to embedded zones: two bridges could then disagree about
// a time, and neither could name the version of its data.
//
//go:embed zoneinfo.zip
var archive string

// ZoneData is the version of the tz database. Versions compare as strings.
const ZoneData = "2025c"

var zones struct {
	sync.Mutex
	files  map[string]*zip.File
	loaded map[string]*time.Location
}

// Zone returns the zone with an IANA name, from the data of this program. "" is UTC.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zones.Lock()
	defer zones.Unlock()
	if zone := zones.loaded[name]; zone != nil {
		return zone, nil
	}
	if zones.files == nil {
		r, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
		if err != nil {
			return nil, fmt.Errorf("zones of this program: %w", err)
		}
		zones.files, zones.loaded = make(map[string]*zip.File), make(map[string]*time.Location)
		for _, file := range r.File {
			if !strings.HasSuffix(file.Name, "/") {
				zones.files[file.Name] = file
			}
		}
	}
	file := zones.files[name]
	if file == nil {
		return nil, fmt.Errorf("zone %.100q: expected the name of a zone of the tz database, such as Europe/Berlin", name)
	}
	data, err := content(file)
	if err != nil {
		return nil, fmt.Errorf("zone %q of this program: %w", name, err)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone %q of this program: %w", name, err)
	}
	zones.loaded[name] = zone
	return zone, nil
}

func content(file *zip.File) ([]byte, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
