package protocol_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// arguments are what stands for the tokens of a subject in tests.
var arguments = strings.NewReplacer("<queue>", "jobs", "<priority>", "-5", "<connection>", "c", "<token>", "t", "<id>", "x", "<key>", "k", "<name>", "n", "<type>", "dead", "<holder>", "49915e0d7d4b402e")

// roles are those of package subjects.
var roles = map[protocol.Roles]func(subjects.Grammar, string) (subjects.Permissions, error){
	protocol.Producer: subjects.Grammar.Producer,
	protocol.Importer: subjects.Grammar.Importer,
	protocol.Consumer: subjects.Grammar.Consumer,
	protocol.Taker:    subjects.Grammar.Taker,
	protocol.Caller:   subjects.Grammar.Caller,
	protocol.Requeuer: subjects.Grammar.Requeuer,
	protocol.Viewer:   subjects.Grammar.Viewer,
	protocol.Admin:    subjects.Grammar.Admin,
}

// Each row has a subject that parses, each verb has a row, and each role publishes the subjects of its rows and no others.
func TestSubjects(t *testing.T) {
	t.Parallel()
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	verbs := make(map[subjects.Verb]bool)
	may := make(map[string]protocol.Roles) // by subject
	for _, o := range protocol.Ops {
		for _, form := range o.Subjects() {
			subject := "pq." + arguments.Replace(form)
			s, err := grammar.Parse(subject)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
				continue
			}
			verbs[s.Verb] = true
			if other, is := may[subject]; is && other != o.Right {
				t.Errorf("%s: other roles may ask for it than for another operation with the subject %s", o.Name, o.Subject)
			}
			may[subject] = o.Right
		}
	}
	for _, e := range protocol.Events {
		if s, err := grammar.Parse("pq." + arguments.Replace(e.Subject())); e.Queue && (err != nil || s.Verb != subjects.Event || s.Event != arguments.Replace(e.Type)) {
			t.Errorf("event %s: %+v, %v", e.Type, s, err)
		}
	}
	verbs[subjects.Event] = true
	for v := subjects.Push; int(v) < subjects.Verbs; v++ {
		if !verbs[v] {
			t.Errorf("no operation has the verb %s", v)
		}
	}
	for role, of := range roles {
		p, err := of(grammar, "*")
		if err != nil {
			t.Fatal(err)
		}
		used := make(map[string]bool)
		for subject := range maps.Keys(may) {
			allowed := false
			for _, pattern := range p.Publish {
				if subjects.Covers(pattern, subject) {
					allowed, used[pattern] = true, true
				}
			}
			if want := may[subject]&role != 0; allowed != want {
				t.Errorf("role %b publishes %s: %t, and the table says %t", role, subject, allowed, want)
			}
		}
		for _, pattern := range p.Publish {
			if !used[pattern] && !strings.HasPrefix(pattern, "$SRV.") {
				t.Errorf("role %b publishes %s, which is no operation", role, pattern)
			}
		}
	}
}
