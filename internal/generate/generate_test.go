package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

const root = "../.."

// Each file has the content that would be written, and there is no schema of a type that is gone.
func TestGenerated(t *testing.T) {
	t.Parallel()
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("make generate writes a file that is not there: %v", err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what make generate writes: run it, and change package protocol rather than that file", name)
		}
	}
	gone, err := leftOver(root, files)
	if err != nil || len(gone) > 0 {
		t.Errorf("schemas of types that are gone: %v, %v", gone, err)
	}
}

// A run writes what differs, removes what is gone, and does nothing the second time.
func TestRun(t *testing.T) {
	t.Parallel()
	copied := t.TempDir()
	for _, name := range []string{"protocol", "docs/protocol/admin.md", "internal/gateway/openapi.yaml", "deploy/nats.conf"} {
		copyTo(t, filepath.Join(root, name), filepath.Join(copied, name))
	}
	for _, folder := range []string{"fdbpq", "client"} {
		copyFiles(t, filepath.Join(root, folder), filepath.Join(copied, folder))
	}
	changed, old := filepath.Join(copied, "protocol/schemas/link.json"), filepath.Join(copied, "protocol/schemas/gone.json")
	for _, path := range []string{changed, old} {
		if err := os.WriteFile(path, []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var said strings.Builder
	if err := run(copied, &said); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(changed)
	if _, missing := os.Stat(old); err != nil || !bytes.Contains(text, []byte("io.pq.v1.link")) || !os.IsNotExist(missing) {
		t.Errorf("the schema of a link is %s, %v; that of a type that is gone: %v", text, err, missing)
	}
	if !strings.Contains(said.String(), "wrote protocol/schemas/link.json\n") || strings.Contains(said.String(), "wrote protocol/schemas/info.json\n") || !strings.Contains(said.String(), "removed protocol/schemas/gone.json\n") {
		t.Errorf("it says\n%s", &said)
	}
	said.Reset()
	if err := run(copied, &said); err != nil || said.String() != "" {
		t.Errorf("the second time it says %q, %v", &said, err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// copyFiles copies the Go files of a folder, and none of the folders in it.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		copyTo(t, name, filepath.Join(to, filepath.Base(name)))
	}
}

// Marks that nobody knows, that have no value, or one of another kind are errors, and so is a field that nobody describes.
func TestMarks(t *testing.T) {
	t.Parallel()
	type fields struct {
		Number int64             `json:"number"`
		Long   protocol.Duration `json:"long"`
		Flag   bool              `json:"flag"`
		Text   string            `json:"text"`
	}
	described := comment{text: "What it is.\n"}
	for _, tc := range []struct {
		field, marks string
		said         comment
		fails        bool
	}{
		{"Number", "label=A number; default=7; min=0; max=9; zero=none", described, false},
		{"Long", "label=A time; default=2m; max=24h", described, false},
		{"Flag", "label=A flag", described, false},
		{"Text", "label=A text; enum=a|b; default=a; core=Text", described, false},
		{"Text", "label=A text; maxlen=5; names", described, false},
		{"Number", "label=A number; most=9", described, true},
		{"Number", "label=A number; max", described, true},
		{"Number", "label=A number; max=", described, true},
		{"Number", "label=A number; max=9h", described, true},
		{"Number", "label=A number; min=1", described, true},
		{"Number", "label=A number;max=9", described, true},
		{"Long", "label=A time; max=9", described, true},
		{"Flag", "label=A flag; default=true", described, true},
		{"Text", "label=A text; enum=a", described, true},
		{"Text", "label=A text; default=a", described, true},
		{"Text", "label=A text; maxlen=many", described, true},
		{"Text", "maxlen=5", described, true},
		{"Text", "since=2; label=A text", described, false},
		{"Text", "since=0; label=A text", described, true},
		{"Text", "since=1; label=A text", described, true},
		{"Text", "since=new; label=A text", described, true},
		{"Text", "", described, true},
		{"Text", "label=A text", comment{}, true},
		{"Text", "label=A text", comment{text: "no sentence\n"}, true},
	} {
		f, _ := reflect.TypeFor[fields]().FieldByName(tc.field)
		f.Tag += reflect.StructTag(` pq:"` + tc.marks + `"`)
		if one, err := newField(f, tc.said); (err != nil) != tc.fails {
			t.Errorf("%s with %q and %q: %+v, %v", tc.field, tc.marks, tc.said.text, one, err)
		}
	}
}

// A queue with a field of a later program has a state that programs before it refuse, and no other queue has.
func TestVersionOfANewField(t *testing.T) {
	t.Parallel()
	type added struct {
		Cheap bool   `json:"cheap" pq:"label=As before"`
		Notes string `json:"notes" pq:"since=2; label=Notes"`
		Speed int64  `json:"speed" pq:"since=3; label=Speed; default=7"`
		Pause bool   `json:"pause" pq:"since=3; label=Pause"`
	}
	var fields []field
	for f := range reflect.TypeFor[added]().Fields() {
		one, err := newField(f, comment{text: "What it is.\n"})
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, one)
	}
	const want = "const newestField = 3\n\n" +
		"// version is that of the first program that keeps all fields of the configuration.\n" +
		"func (c *Config) version() int64 {\n" +
		"if c.Speed != DefaultSpeed || c.Pause {\nreturn 3\n}\nif c.Notes != \"\" {\nreturn 2\n}\nreturn 1\n}\n"
	source := storedSource(fields)
	if !strings.Contains(source, want) {
		t.Errorf("expected\n%s\nin\n%s", want, source)
	}
	for name, omitted := range map[string]bool{"cheap": true, "notes": true, "speed": false, "pause": true} {
		if is := strings.Contains(source, name+",omitzero"); is != omitted {
			t.Errorf("the field %s is left out at zero: %t, expected %t", name, is, omitted)
		}
	}
}

// A file without a region, or with half of one, is an error.
func TestRegions(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{
		"a\n<!-- generated: config, by x -->\nold\n<!-- /generated -->\nb\n": "a\n<!-- generated: config, by x -->\nnew\n<!-- /generated -->\nb\n",
		"a\n  # generated: config\n  # /generated\nb\n":                      "a\n  # generated: config\nnew\n  # /generated\nb\n",
		"a\n<!-- generated: config -->\nb\n":                                 "",
		"a\n<!-- /generated -->\nb\n":                                        "",
	} {
		if got, err := replaceRegion(before, "config", "new\n"); got != want || (err != nil) != (want == "") {
			t.Errorf("%q becomes %q, %v; expected %q", before, got, err, want)
		}
	}
}

// byHand are the files that have the fields of a configuration and are not generated: files of the other clients.
var byHand = []struct{ file, begins, ends string }{
	{"clients/js/index.d.ts", "export interface Config {\n", "\n}\n"},
	{"clients/python/pqbridge/config.py", "class ConfigChange(TypedDict, total=False):\n", "\n\n\n"},
	{"clients/python/pqbridge/config.py", "class Config(TypedDict):\n", "\n\n\n"},
}

// The other clients have each field of a configuration, and no other.
func TestConfigurationsByHand(t *testing.T) {
	t.Parallel()
	for _, h := range byHand {
		text, err := os.ReadFile(filepath.Join(root, h.file))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), h.begins)
		body, _, _ := strings.Cut(rest, h.ends)
		var found []string
		for line := range strings.Lines(body) {
			if name, _, is := strings.Cut(strings.TrimSpace(line), ": "); is && !strings.ContainsAny(name, ` "*/`) {
				found = append(found, name)
			}
		}
		var want []string
		for _, f := range protocol.ConfigFields {
			want = append(want, f.Name)
		}
		for _, name := range want {
			if !slices.Contains(found, name) {
				t.Errorf("%s: %s lacks the field %s of a configuration", h.file, strings.TrimSpace(h.begins), name)
			}
		}
		for _, name := range found {
			if !slices.Contains(want, name) {
				t.Errorf("%s: %s has %s, which is no field of a configuration", h.file, strings.TrimSpace(h.begins), name)
			}
		}
	}
}
