package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
)

// ExportMark begins the last line of an export, and no other line: no item has a field of this name.
const ExportMark = `{"export":`

// MaxExportDefinitions bounds the JSON of an export's [Definitions]: one line has all of them.
const MaxExportDefinitions = 32 << 20

// ExportEnd is the last line of an export.
type ExportEnd struct {
	Export *ExportTrailer `json:"export"`
}

// ExportTrailer has what proves that the lines of an export are as they were written, and says whether they are all
// of the queue.
type ExportTrailer struct {
	Queue  string  `json:"queue"`
	Items  int64   `json:"items"`
	SHA256 string  `json:"sha256"` // of the lines before it, each with its line feed
	Config *Config `json:"config,omitempty"`

	// Keys are the settings of keys, as an administrator has set them.
	Keys map[string]KeySettings `json:"keys,omitempty"`

	Definitions

	// Missing says, for people, what the export may lack; "": nothing.
	Missing string `json:"missing,omitempty"`
}

// Definitions are what an administrator has given a queue beside its configuration, each by a name.
type Definitions struct {
	Schedules []Schedule `json:"schedules,omitempty"`
	Sources   []Source   `json:"sources,omitempty"`
	Links     []Link     `json:"links,omitempty"`
}

// ExportWriter writes an export. Get one from [NewExportWriter].
type ExportWriter struct {
	// Definitions stand in the last line.
	Definitions Definitions
	Missing     string

	to    io.Writer
	lines *json.Encoder
	sum   hash.Hash
	items int64
}

// NewExportWriter returns a writer of the export of one queue.
func NewExportWriter(to io.Writer) *ExportWriter {
	w := &ExportWriter{to: to, sum: sha256.New()}
	w.lines = json.NewEncoder(io.MultiWriter(to, w.sum))
	w.lines.SetEscapeHTML(false)
	return w
}

// Write adds an item.
func (w *ExportWriter) Write(i *Item) error {
	if err := w.lines.Encode(i); err != nil {
		return err
	}
	w.items++
	return nil
}

// Items returns how many items were added.
func (w *ExportWriter) Items() int64 { return w.items }

// End writes the last line. config is nil if the configuration is not known.
func (w *ExportWriter) End(queue string, config *Config, keys map[string]KeySettings) error {
	line, err := Marshal(ExportEnd{&ExportTrailer{
		Queue: queue, Items: w.items, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Config: config, Keys: keys, Definitions: w.Definitions, Missing: w.Missing,
	}})
	if err == nil {
		_, err = w.to.Write(append(line, '\n'))
	}
	return err
}
