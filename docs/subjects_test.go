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

// entries returns what a list of protocol.md describes, and the code in the entry up to a semicolon, for
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
		first, _, _ := strings.Cut(line, ";")
		for _, word := range code.FindAllString(first, -1) {
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
		subject := "pq.<queue>." + strings.NewReplacer("admin.schedule.", "admin.schedule.<name>.", "admin.source.", "admin.source.<name>.", "admin.link.", "admin.link.<name>.").Replace(v.String())
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

// roles are those of the protocol, and their permissions.
var roles = map[string]func(subjects.Grammar, string) (subjects.Permissions, error){
	"a producer":                 subjects.Grammar.Producer,
	"an importer":                subjects.Grammar.Importer,
	"a consumer":                 subjects.Grammar.Consumer,
	"a requeuer of dead letters": subjects.Grammar.Requeuer,
	"a taker, by links":          subjects.Grammar.Taker,
	"a caller":                   subjects.Grammar.Caller,
	"a viewer":                   subjects.Grammar.Viewer,
	"an administrator":           subjects.Grammar.Admin,
}

// rights are the subjects that a role publishes, as the page has them for the queue jobs.
func rights(t *testing.T, role string) []string {
	t.Helper()
	all := entries(t, "Permissions")[role]
	if role == "an administrator" {
		all = slices.Concat(all, rights(t, "a viewer"))
	}
	if len(all) == 0 {
		t.Fatalf("docs/protocol.md: the list of permissions lacks %s", role)
	}
	return all
}

// The list of roles has each subject that the role's permissions have, and no other.
func TestRolesOfTheProtocol(t *testing.T) {
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	for role, permissions := range roles {
		p, err := permissions(grammar, "jobs")
		if err != nil {
			t.Fatal(err)
		}
		described, granted := slices.Sorted(slices.Values(rights(t, role))), slices.Sorted(slices.Values(p.Publish))
		if !slices.Equal(described, granted) {
			t.Errorf("docs/protocol.md: %s publishes\n%q, and the permissions are\n%q", role, described, granted)
		}
	}
}
