package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// import reads every payload and all headers from the line that export writes, unchanged.
func FuzzExportedLine(f *testing.F) {
	f.Add([]byte("hello"), "a", "b", int64(-3))
	f.Add([]byte{0xff, 0}, "Nats-Expected", "<&>", int64(0))
	f.Add([]byte(nil), "a", "\xff", int64(1))
	f.Fuzz(func(t *testing.T, payload []byte, key, value string, priority int64) {
		i := show.Listed(&client.Listed{ID: "x", Priority: priority, Header: nats.Header{"Key": {key, value}}})
		i.SetPayload(payload)
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(i); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(text.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%q is no single line", text.Bytes())
		}
		read, err := readImported(text.Bytes())
		if err != nil || !bytes.Equal(read.Bytes(), payload) || read.Priority == nil || *read.Priority != priority || read.ID != "x" {
			t.Errorf("%s is read as %+v, %v", text.Bytes(), read, err)
		}
		if want := []string{key, value}; !slices.Equal(read.AllHeaders()["Key"], want) {
			t.Errorf("headers %q are read as %q", want, read.AllHeaders())
		}
	})
}

// Any line is read as an item with a payload, or refused with a text that says what was
// expected.
func FuzzImportedLine(f *testing.F) {
	for _, line := range []string{
		`{"priority": 3, "payload": "hello"}`, `{"payload_base64":"aGVsbG8="}`, `{"payload":""}`, `{"priority":1}`,
		`{"payload":"x","due":"2030-01-02T15:04:05Z","state":"delayed","headers":{"a":["b"]}}`, `[]`, `{"payload":5}`, ``, `{"export":{"items":1,"sha256":"x","config":{"lease":"30s"}}}`, `{"export":null}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if _, err := newChecksum().line(line); err != nil && err.Error() == "" {
			t.Errorf("%q: an error that says nothing", line)
		}
		read, err := readImported(line)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error that says nothing", line)
			}
			return
		}
		if read.Payload == nil && read.Base64 == nil {
			t.Errorf("%q has no payload", line)
		}
	})
}

// Any command line is read, or refused as a mistake in the use of the command.
func FuzzArguments(f *testing.F) {
	for _, args := range []string{
		"push\x00jobs\x00hello\x00--priority=5", "pop\x00jobs\x00--band\x001..5\x00-n", "config\x00jobs\x00lease=5m\x00max_length=x",
		"move\x00jobs\x00x\x00-5", "--timeout=1h\x00get\x00--", "list\x00jobs\x00--state=dead", "export\x00--state\x00ready\x00-o", "\x00",
	} {
		f.Add([]byte(args))
	}
	f.Fuzz(func(t *testing.T, joined []byte) {
		var args []string
		for part := range bytes.SplitSeq(joined, []byte{0}) {
			args = append(args, string(part))
		}
		s := session.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
		root := rootCommand(s)
		leaves(root, func(c *cobra.Command) {
			c.RunE = func(_ *cobra.Command, args []string) (err error) {
				if c.Name() == "config" {
					_, err = parseConfig(args[1:])
				}
				return err
			}
		})
		root.SetArgs(arranged(root, args))
		err := root.Execute()
		var usage *session.UsageError
		if err != nil && !errors.As(err, &usage) {
			t.Errorf("%q: %v is no mistake in the use", args, err)
		}
	})
}
