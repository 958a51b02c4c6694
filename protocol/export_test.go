package protocol_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// An export says of its lines how many they are and what their sum is, and keeps
// payloads whatever their bytes.
func TestExport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := protocol.NewExportWriter(&out)
	payloads := [][]byte{[]byte("text <&>"), {0xff, 0}, {}}
	for _, payload := range payloads {
		i := protocol.Item{ID: "x", Headers: map[string][]string{"A": {"<b>"}}}
		i.SetPayload(payload)
		if err := w.Write(&i); err != nil {
			t.Fatal(err)
		}
	}
	config := protocol.Config{Ties: "newest"}
	w.Definitions = protocol.Definitions{Schedules: []protocol.Schedule{{Name: "daily"}}, Sources: []protocol.Source{{Name: "orders"}}, Links: []protocol.Link{{Name: "hub"}}}
	if err := w.End("jobs", &config, map[string]protocol.KeySettings{"ann": {Limit: new(int64(2))}}); err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(out.Bytes(), []byte("\n"))
	if len(lines) != len(payloads)+2 || len(lines[len(payloads)+1]) != 0 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, payload := range payloads {
		var item protocol.Item
		if err := json.Unmarshal(lines[i], &item); err != nil || !bytes.Equal(item.Bytes(), payload) || item.Headers["A"][0] != "<b>" {
			t.Errorf("%s is read as %+v, %v", lines[i], item, err)
		}
	}
	if !bytes.Contains(lines[0], []byte("text <&>")) {
		t.Errorf("%s is not as people write it", lines[0])
	}
	sum := sha256.Sum256(bytes.Join(lines[:len(payloads)], nil))
	last := lines[len(payloads)]
	var end protocol.ExportEnd
	if err := json.Unmarshal(last, &end); err != nil || !bytes.HasPrefix(last, []byte(protocol.ExportMark)) {
		t.Fatalf("%s: %v", last, err)
	}
	if s := end.Export; s.Queue != "jobs" || s.Items != 3 || w.Items() != 3 || s.SHA256 != hex.EncodeToString(sum[:]) || *s.Config != config ||
		len(s.Keys) != 1 || *s.Keys["ann"].Limit != 2 || s.Keys["ann"].Rate != nil ||
		!reflect.DeepEqual(s.Definitions, w.Definitions) {
		t.Errorf("%s: %+v", last, s)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

// An item that could not be written does not count.
func TestExportThatFails(t *testing.T) {
	t.Parallel()
	w := protocol.NewExportWriter(failingWriter{})
	if err := w.Write(&protocol.Item{}); err == nil || w.Items() != 0 {
		t.Errorf("%d items are written, %v", w.Items(), err)
	}
}

// Headers that JSON cannot carry travel apart from the others. Neither way changes the
// headers that were given.
func TestRawHeaders(t *testing.T) {
	t.Parallel()
	for _, headers := range []map[string][]string{
		{"Text": {"a", "b"}, "Raw": {"\xff", "c"}}, {"Raw": {"\xff"}}, {"Text": {"a"}}, nil,
	} {
		given := maps.Clone(headers)
		var item protocol.Item
		item.SetHeaders(headers)
		text, err := json.Marshal(&item)
		if err != nil {
			t.Fatal(err)
		}
		var read protocol.Item
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		plain := len(read.Headers)
		if all := read.AllHeaders(); !maps.EqualFunc(all, given, slices.Equal[[]string]) {
			t.Errorf("%q travel as %s and arrive as %q", given, text, all)
		}
		if !maps.EqualFunc(headers, given, slices.Equal[[]string]) || len(read.Headers) != plain {
			t.Errorf("the headers %q have become %q, those of the item %q", given, headers, read.Headers)
		}
	}
}
