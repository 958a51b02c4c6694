package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// The description has each operation and each event, and all that it refers to.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "protocol/asyncapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	actions := make(map[string]int)
	for _, o := range all["operations"].(map[string]any) {
		actions[o.(map[string]any)["action"].(string)]++
	}
	forms := len(protocol.Ops) + 2 // a push, and many, with a priority in the subject
	if actions["receive"] != forms || actions["send"] != len(protocol.Events) {
		t.Errorf("it receives and sends %v, expected %d requests and %d events", actions, forms, len(protocol.Events))
	}
	refer(t, all, all, filepath.Join(root, "protocol"))
}

// refer checks that all is there to which a part of a document refers: in the document, or in a folder.
func refer(t *testing.T, all map[string]any, part any, folder string) {
	t.Helper()
	switch p := part.(type) {
	case []any:
		for _, one := range p {
			refer(t, all, one, folder)
		}
	case map[string]any:
		if ref, is := p["$ref"].(string); is && !found(all, ref, folder) {
			t.Errorf("there is no %s", ref)
		}
		for _, one := range p {
			refer(t, all, one, folder)
		}
	}
}

// found says whether a document, or a folder, has what a reference names.
func found(in any, ref, folder string) bool {
	if !strings.HasPrefix(ref, "#/") {
		_, err := os.Stat(filepath.Join(folder, ref))
		return err == nil && folder != ""
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		object, _ := in.(map[string]any)
		if in = object[name]; in == nil {
			return false
		}
	}
	return true
}
