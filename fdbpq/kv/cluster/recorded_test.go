package cluster

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// RecordedFile has what TestRecord wrote.
const RecordedFile = "testdata/format-2.txt"

// Recorded is what three members of an earlier version with this format left behind: the entries of their log, the heartbeats
// that they sent last, and the copy of one of them.
type Recorded struct {
	Copied     string // whose copy it is
	Active     string // the member that was active last
	Follower   string // the third one
	Entries    [][]byte
	Heartbeats [][]byte
	Files      map[string][]byte
}

// ReadRecorded reads RecordedFile.
func ReadRecorded(t testing.TB) Recorded {
	t.Helper()
	text, err := os.ReadFile(RecordedFile)
	if err != nil {
		t.Fatal(err)
	}
	decode := func(s string) []byte {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r := Recorded{Files: make(map[string][]byte)}
	for line := range strings.Lines(string(text)) {
		what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch what {
		case "members":
			if n, err := fmt.Sscan(rest, &r.Copied, &r.Active, &r.Follower); err != nil {
				t.Fatal(n, err)
			}
		case "entry":
			r.Entries = append(r.Entries, decode(rest))
		case "heartbeat":
			r.Heartbeats = append(r.Heartbeats, []byte(rest))
		case "file":
			name, packed, _ := strings.Cut(rest, " ")
			unpacked, err := gzip.NewReader(bytes.NewReader(decode(packed)))
			if err == nil {
				r.Files[name], err = io.ReadAll(unpacked)
			}
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("what is %q?", what)
		}
	}
	return r
}

// This version reads the records of the earlier one, and writes the same bytes: the earlier one
// reads its records.
func TestRecordsOfEarlierVersion(t *testing.T) {
	t.Parallel()
	var h chain.Head
	kinds := make(map[chain.Kind]int)
	for i, entry := range ReadRecorded(t).Entries {
		next, r, err := h.After(entry)
		if err != nil {
			t.Fatalf("entry %d: %v", i+1, err)
		}
		kinds[r.Kind]++
		if again := r.Encode(); !bytes.Equal(again, entry) {
			t.Errorf("entry %d is written as\n%x, it was\n%x", i+1, again, entry)
		}
		if i > 0 {
			if written := h.Next(r.Process, r.Kind, r.Payload).Encode(); !bytes.Equal(written, entry) {
				t.Errorf("behind entry %d this version writes\n%x, the earlier one\n%x", i, written, entry)
			}
		}
		h = next
	}
	for kind := chain.Genesis; kind <= chain.Release; kind++ {
		if kinds[kind] == 0 {
			t.Errorf("no record of kind %d is recorded", kind)
		}
	}
	if h.Epoch != 2 {
		t.Errorf("the log ends with entry %d of epoch %d", h.Entry, h.Epoch)
	}
}

// This version says all in its heartbeats that the earlier one reads, in the same words.
func TestHeartbeatsOfEarlierVersion(t *testing.T) {
	t.Parallel()
	for _, message := range ReadRecorded(t).Heartbeats {
		p := peers.New("another", Silence)
		h, ok := p.Hear(message)
		if !ok || h.Entry == 0 || h.Role == "" || len(h.Hash) != 64 || h.Format != chain.RecordFormat {
			t.Errorf("%s was heard as %+v", message, h)
		}
		again, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		if err := json.Unmarshal(message, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &after); err != nil {
			t.Fatal(err)
		}
		for field, value := range before {
			if !reflect.DeepEqual(after[field], value) {
				t.Errorf("%s is %v in a heartbeat of this version, %v in one of the earlier", field, after[field], value)
			}
		}
	}
}
