package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/subjects"
)

// entries returns what a list of protocol.md describes, and the code in the whole entry, for
// the list below a heading.
func entries(t *testing.T, heading string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := make(map[string][]string)
	for line := range strings.Lines(section) {
		described, _, found := strings.Cut(strings.TrimPrefix(line, "- "), ": ")
		if !found || !strings.HasPrefix(line, "- ") {
			continue
		}
		var words []string
		for _, word := range code.FindAllString(line, -1) {
			words = append(words, strings.Trim(word, "`"))
		}
		all[described] = words
	}
	if !found || len(all) == 0 {
		t.Fatalf("docs/protocol.md: found no list under %q", heading)
	}
	return all
}

// The list of subjects has each verb of the grammar, and nothing else.
func TestSubjectsOfTheProtocol(t *testing.T) {
	var described []string
	for entry := range maps.Keys(entries(t, "Subjects")) {
		for _, word := range code.FindAllString(entry, -1) {
			described = append(described, strings.Trim(word, "`"))
		}
	}
	known := make(map[string]bool)
	for v := subjects.Push; int(v) < subjects.Verbs; v++ {
		subject := "pq.<queue>." + strings.NewReplacer("admin.schedule.", "admin.schedule.<name>.", "admin.source.", "admin.source.<name>.").Replace(v.String())
		if strings.HasPrefix(v.String(), "_sys.") {
			subject = "pq." + v.String()
		}
		found := false
		for _, s := range described {
			if s == subject || strings.HasPrefix(s, subject+".<") {
				found, known[s] = true, true
			}
		}
		if !found {
			t.Errorf("docs/protocol.md: the list of subjects lacks %s", subject)
		}
	}
	for _, s := range described {
		if !known[s] {
			t.Errorf("docs/protocol.md: the list of subjects has %s, which is none", s)
		}
	}
}

// The list of roles has each subject that the role's permissions have.
func TestRolesOfTheProtocol(t *testing.T) {
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	table := entries(t, "Permissions")
	for role, permissions := range map[string]func(string) (subjects.Permissions, error){
		"a producer":                 grammar.Producer,
		"an importer":                grammar.Importer,
		"a consumer":                 grammar.Consumer,
		"a requeuer of dead letters": grammar.Requeuer,
		"a viewer":                   grammar.Viewer,
		"an administrator":           grammar.Admin,
	} {
		p, err := permissions("jobs")
		if err != nil {
			t.Fatal(err)
		}
		described := table[role]
		if role == "an administrator" {
			described = slices.Concat(described, table["a viewer"])
		}
		for _, subject := range p.Publish {
			if strings.HasPrefix(subject, "pq.") && !slices.Contains(described, subject) {
				t.Errorf("docs/protocol.md: the role %s lacks %s", role, subject)
			}
		}
	}
}
