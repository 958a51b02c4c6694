package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// Item is an item as programs write and read it, one JSON object a line. An
// export consists of such lines and an [ExportEnd].
type Item struct {
	Queue        string              `json:"queue,omitempty"`
	ID           string              `json:"id,omitempty"`
	Priority     int64               `json:"priority"`
	State        State               `json:"state,omitempty"`
	Deliveries   int64               `json:"deliveries,omitempty"`
	Pushed       time.Time           `json:"pushed,omitzero"`
	Due          time.Time           `json:"due,omitzero"` // when the lease ends, or the delay
	Expires      time.Time           `json:"expires,omitzero"`
	Size         int64               `json:"size,omitempty"`
	Headers      map[string][]string `json:"headers,omitempty"`        // whose values are UTF-8
	RawHeaders   map[string][][]byte `json:"headers_base64,omitempty"` // the others
	Payload      *string             `json:"payload,omitempty"`        // when it is UTF-8
	Base64       []byte              `json:"payload_base64,omitempty"` // when it is not
	Ack          string              `json:"ack,omitempty"`
	LeaseExpires time.Time           `json:"lease_expires,omitzero"`
	Fence        uint64              `json:"fence,omitempty"`
	Dead         *Death              `json:"dead,omitempty"`
}

// SetPayload sets Payload or Base64, whichever fits.
func (i *Item) SetPayload(payload []byte) {
	if utf8.Valid(payload) {
		i.Payload = new(string(payload))
	} else {
		i.Base64 = payload
	}
}

// SetHeaders sets Headers and RawHeaders.
func (i *Item) SetHeaders(headers map[string][]string) {
	i.Headers, i.RawHeaders = headers, nil
	if ValidUTF8(headers) {
		return
	}
	i.Headers, i.RawHeaders = maps.Clone(headers), make(map[string][][]byte)
	for name, values := range headers {
		if !slices.ContainsFunc(values, isRaw) {
			continue
		}
		delete(i.Headers, name)
		for _, value := range values {
			i.RawHeaders[name] = append(i.RawHeaders[name], []byte(value))
		}
	}
}

// AllHeaders returns what SetHeaders was given.
func (i *Item) AllHeaders() map[string][]string {
	if len(i.RawHeaders) == 0 {
		return i.Headers
	}
	all := maps.Clone(i.Headers)
	if all == nil {
		all = make(map[string][]string)
	}
	for name, values := range i.RawHeaders {
		for _, value := range values {
			all[name] = append(all[name], string(value))
		}
	}
	return all
}

// ValidUTF8 reports whether JSON can carry the values of headers: they are UTF-8.
func ValidUTF8(headers map[string][]string) bool {
	for _, values := range headers {
		if slices.ContainsFunc(values, isRaw) {
			return false
		}
	}
	return true
}

func isRaw(value string) bool { return !utf8.ValidString(value) }

// Bytes returns the payload.
func (i *Item) Bytes() []byte {
	if i.Payload != nil {
		return []byte(*i.Payload)
	}
	return i.Base64
}

// ExportMark begins the last line of an export: no item has such a field.
const ExportMark = `{"export":`

// ExportEnd is the last line of an export.
type ExportEnd struct {
	Export *ExportTrailer `json:"export"`
}

// ExportTrailer proves that an export is complete and unchanged.
type ExportTrailer struct {
	Queue  string  `json:"queue"`
	Items  int64   `json:"items"`
	SHA256 string  `json:"sha256"` // of the lines before it, each with its line feed
	Config *Config `json:"config,omitempty"`
}

// ExportWriter writes an export. Get one from [NewExportWriter].
type ExportWriter struct {
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

// End writes the last line. An unknown configuration is nil.
func (w *ExportWriter) End(queue string, config *Config) error {
	return json.NewEncoder(w.to).Encode(ExportEnd{&ExportTrailer{
		Queue: queue, Items: w.items, SHA256: hex.EncodeToString(w.sum.Sum(nil)), Config: config,
	}})
}
