package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/fdbpq"
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
		if answer, err := nc.RequestMsg(m, testenv.Patience()); err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
	for _, command := range []string{"export jobs -o " + file, "purge jobs --force", "import jobs --file " + file} {
		if code, text := pq(t, env, strings.Fields(command)...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", command, code, text)
		}
	}
	if code, text := pq(t, env, "peek", "jobs", "--json"); code != 0 || !strings.Contains(text, `"headers_base64":{"Raw":["//4=","dGV4dA=="]}`) {
		t.Errorf("peek: exit code %d: %s", code, text)
	}
	got, err := nc.Request("pq.jobs.pop.min", nil, testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range want {
		if !slices.Equal(got.Header[name], values) {
			t.Errorf("%s is %q, expected %q", name, got.Header[name], values)
		}
	}
}

// Where items make no queues, an import makes its queue all the same, also before it has read
// the end of a pipe and without a pause.
func TestImportMakesItsQueue(t *testing.T) {
	t.Parallel()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := testenv.NATS(t)
	serveStore(t, s.Connect(t), testenv.OpenStore(t, db, fdbpq.Options{RefuseUnknown: true}))
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
	if code, text := pq(t, env, "push", "new", "x"); code == 0 || !strings.Contains(text, "403") {
		t.Fatalf("push: exit code %d, expected a refusal: %s", code, text)
	}
	if code, text := pq(t, env, "config", "old", "lease=1m"); code != 0 {
		t.Fatalf("config: exit code %d: %s", code, text)
	}
	if code, text := pq(t, env, "push", "old", "x"); code != 0 {
		t.Fatalf("push: exit code %d: %s", code, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	var exported, said bytes.Buffer
	if code := run(ctx, []string{"export", "old"}, env, strings.NewReader(""), &exported, &said); code != 0 {
		t.Fatalf("export: exit code %d: %s", code, &said)
	}
	if code := run(ctx, []string{"import", "new", "--live"}, env, &exported, &said, &said); code != 0 {
		t.Fatalf("import: exit code %d: %s", code, &said)
	}
	if code, text := pq(t, env, "config", "new", "--json"); code != 0 || !strings.Contains(text, `"lease":"1m0s"`) {
		t.Errorf("config: exit code %d: %s", code, text)
	}
}

// An import whose first item is refused may have placed later ones, which were on their way: the queue stays paused, and running the
// import again doubles nothing.
func TestImportThatFailsAtItsBeginning(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.does(t, "push", "jobs", "there", "--unique", "u")
	w.does(t, "push", "other", "refused", "--unique", "u", "--priority", "-1")
	for i := range 20 {
		w.does(t, "push", "other", fmt.Sprint(i))
	}
	file := filepath.Join(w.dir, "other.jsonl")
	w.does(t, "export", "other", "-o", file)
	code, text := pq(t, w.env, "import", "jobs", "--file", file)
	if code == 0 || !strings.Contains(text, "The queue jobs is paused") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if said := w.does(t, "info", "jobs"); !strings.Contains(said, "aused") {
		t.Errorf("the queue is live:\n%s", said)
	}
}

// The address of Redis may have a password, so a variable sets it, too. A flag counts more.
func TestImportTakesRedisFromItsVariable(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir(), "REDIS_URL=no address"}
	for args, says := range map[string]string{"": "expected redis://", "--redis redis://127.0.0.1:1": "connection refused"} {
		if _, text := pq(t, env, append(strings.Fields("import jobs --from bullmq:emails"), strings.Fields(args)...)...); !strings.Contains(text, says) {
			t.Errorf("%s: expected %q: %s", args, says, text)
		}
	}
}

// list is a list of items whose letters are their times, in upper case those of
// priority 0, in lower case those of priority 1. A ! is an error.
func list(text string) iter.Seq2[client.Listed, error] {
	return func(yield func(client.Listed, error) bool) {
		for _, c := range text {
			if c == '!' {
				yield(client.Listed{}, errors.New("failed"))
				return
			}
			item := client.Listed{ID: string(c), Pushed: time.Unix(int64(c|0x20), 0)}
			if c >= 'a' {
				item.Priority = 1
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

func TestMerged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ lists, want string }{
		{"", ""},
		{"ABab", "ABab"},
		{"ACac BDbd", "ABCDabcd"},
		{" Bb Aa  ", "ABab"},
		{"abc A", "Aabc"},
		{"Aa! Bb", "ABa!"},
		{"Aa !", "!"},
		{"! Aa", "!"},
	} {
		var lists []iter.Seq2[client.Listed, error]
		for text := range strings.SplitSeq(tc.lists, " ") {
			lists = append(lists, list(text))
		}
		got := ""
		for item, err := range merged(lists) {
			if err != nil {
				got += "!"
				continue
			}
			got += item.ID
		}
		if got != tc.want {
			t.Errorf("%s merged is %s, expected %s", tc.lists, got, tc.want)
		}
		for range merged(lists) {
			break // which must not go on
		}
	}
}
