//go:build fdb

package fdb

import (
	"strings"
	"testing"
)

// Whatever stands in a cluster file: what is taken for coordinators stands in
// it, behind a name.
func FuzzClusterFile(f *testing.F) {
	f.Add("test:secret@127.0.0.1:4500,127.0.0.1:4501:tls\n")
	f.Add("# comment\n\n a:b@c:1 # more")
	f.Add("a@b:1")
	f.Fuzz(func(t *testing.T, content string) {
		coordinators, ok := parseClusterFile(content)
		if ok && (!strings.Contains(content, "@"+coordinators) || !strings.Contains(coordinators, ":") || strings.ContainsAny(coordinators, "\n#")) {
			t.Errorf("%q: %q", content, coordinators)
		}
	})
}
