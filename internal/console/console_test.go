package console

import (
	"fmt"
	"io/fs"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// The page and all its files are served, with a policy that allows no other script.
func TestFiles(t *testing.T) {
	t.Parallel()
	page, err := fs.Sub(files, "page")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(page, ".")
	if err != nil || len(entries) < 5 {
		t.Fatal(entries, err)
	}
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "javascript", ".svg": "image/svg"}
	for _, entry := range entries {
		at := "/console/" + entry.Name()
		if entry.Name() == "index.html" {
			at = "/"
		}
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest("GET", at, nil))
		if kind := kinds[path.Ext(entry.Name())]; w.Code != 200 || kind == "" || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", at, w.Code, w.Header())
		}
		csp := w.Header().Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "connect-src 'self'", "trusted-types 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, rule) {
				t.Errorf("%s: the policy %q lacks %s", at, csp, rule)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %v", at, w.Header())
		}
		for name, value := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, expected %q", at, name, got, value)
			}
		}
	}
	for _, at := range []string{"/console/", "/console/page", "/console/console.go", "/console/..%2fconsole.go", "/elsewhere"} {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest("GET", at, nil))
		if w.Code == 200 {
			t.Errorf("%s is served", at)
		}
	}
}

// The page names all its modules, so that a browser asks for all of them at once.
func TestModulesArePreloaded(t *testing.T) {
	t.Parallel()
	index, err := fs.ReadFile(files, "page/index.html")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := fs.Glob(files, "page/*.js")
	if err != nil || len(modules) == 0 {
		t.Fatal(modules, err)
	}
	for _, module := range modules {
		name := path.Base(module)
		if line := `<link rel="modulepreload" href="/console/` + name + `">`; strings.Contains(string(index), line) == (name == "main.js") {
			t.Errorf("index.html: expected %s, except for main.js", line)
		}
	}
	if named, there := strings.Count(string(index), `rel="modulepreload"`), len(modules)-1; named != there {
		t.Errorf("index.html names %d modules: expected %d", named, there)
	}
}

// The page marks the causes that are wrong, and no others.
func TestMarkedCauses(t *testing.T) {
	t.Parallel()
	module, err := fs.ReadFile(files, "page/cause.js")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`const fine = new Set\(\[(.*)\]\)`).FindSubmatch(module)
	if list == nil {
		t.Fatal("cause.js has no list of causes that are not wrong")
	}
	var fine []string
	for _, cause := range protocol.Causes {
		if !cause.Wrong() {
			fine = append(fine, fmt.Sprintf("%q", cause))
		}
	}
	if want := strings.Join(fine, ", "); !slices.Equal(sortedList(string(list[1])), sortedList(want)) {
		t.Errorf("cause.js does not mark %s: expected %s", list[1], want)
	}
}

func sortedList(text string) []string { return slices.Sorted(slices.Values(strings.Split(text, ", "))) }

// forbidden turns text into markup or code, or needs something from elsewhere.
var forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function|setTimeout\("|<script>|\son\w+="|style="|//[a-z0-9.-]+\.[a-z]{2,}/`)

// No file turns text into markup, and none needs another site.
func TestNothingTurnsTextIntoMarkup(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		for number, line := range strings.Split(string(text), "\n") {
			line = strings.ReplaceAll(line, `"http://www.w3.org/2000/svg"`, "") // a name, and no address
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: found %q", name, number+1, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
