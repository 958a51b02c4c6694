package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// An export and its import keep headers whatever their bytes.
func TestExportKeepsHeaders(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	startBridge(t, s, "", "")
	nc := s.Connect(t)
	want := nats.Header{"Raw": {"\xff\xfe", "text"}, "Text": {"ä"}}
	for _, header := range []nats.Header{want, {"Text": {"ö"}}} {
		m := nats.NewMsg("pq.jobs.push")
		m.Header, m.Data = maps.Clone(header), []byte("x")
		if answer, err := nc.RequestMsg(m, testenv.Patience); err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_TIMEOUT=" + testenv.Patience.String()}
	for _, command := range []string{"export jobs -o " + file, "purge jobs --force", "import jobs --file " + file} {
		if code, text := pq(t, env, strings.Fields(command)...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", command, code, text)
		}
	}
	if code, text := pq(t, env, "peek", "jobs", "--json"); code != 0 || !strings.Contains(text, `"headers_base64":{"Raw":["//4=","dGV4dA=="]}`) {
		t.Errorf("peek: exit code %d: %s", code, text)
	}
	got, err := nc.Request("pq.jobs.pop.min", nil, testenv.Patience)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range want {
		if !slices.Equal(got.Header[name], values) {
			t.Errorf("%s is %q, expected %q", name, got.Header[name], values)
		}
	}
}
