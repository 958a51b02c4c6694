package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// setting is a way in which subjects name a queue.
type setting struct {
	name, prefix string
	tenants      bool
	queue        string   // that roles are for, as their permissions name it
	every        string   // all of them, in a pattern
	names        []string // that subjects have in place of a queue's
	beside       []string // that they have in front of _sys
}

// settings are those without tenants, of a tenant's own users, and of the operator's.
var settings = []setting{
	{"a bridge", "pq.", false, "jobs", "*", []string{"jobs", "jobs-dead", "other", "other-dead"}, []string{""}},
	{"a tenant", "pq.ACME.", false, "jobs", "*", tenantsQueues, []string{"", "ACME.", "SALES."}},
	{"the operator", "pq.", true, "ACME.jobs", "*.*", tenantsQueues, []string{"", "ACME.", "SALES."}},
}

var tenantsQueues = []string{"ACME.jobs", "ACME.jobs-dead", "ACME.other", "SALES.jobs", "SALES.jobs-dead"}

// arguments are what stands for those of the page.
var arguments = strings.NewReplacer("<priority>", "-5", "<id>", "x", "<key>", "%2B1", "<name>", "s", "<…>", "c.t", "<type>", "dead")

// asked are all subjects of the page, for each queue.
func (s setting) asked(t *testing.T) (all []string) {
	t.Helper()
	for entry := range maps.Keys(entries(t, "Subjects")) {
		for _, word := range code.FindAllString(entry, -1) {
			subject := arguments.Replace(strings.Trim(word, "`"))
			if verb, ofQueue := strings.CutPrefix(subject, "pq.<queue>."); ofQueue {
				for _, name := range s.names {
					all = append(all, "pq."+name+"."+verb)
				}
				continue
			}
			for _, tenant := range s.beside {
				all = append(all, "pq."+tenant+strings.TrimPrefix(subject, "pq."))
			}
		}
	}
	return all
}

// expected are the patterns of the page for a role at one queue, or at all.
func (s setting) expected(t *testing.T, role string, every bool) (all []string) {
	t.Helper()
	for _, pattern := range rights(t, role) {
		pattern = strings.TrimPrefix(pattern, "pq.")
		own, verb, _ := strings.Cut(pattern, ".")
		if own != "jobs" && own != "jobs-dead" {
			t.Fatalf("docs/protocol.md: %s publishes pq.%s, which is not about jobs", role, pattern)
		}
		name := strings.Replace(own, "jobs", s.queue, 1)
		if every {
			name = s.every
		}
		all = append(all, s.prefix+name+"."+verb)
	}
	if every {
		for _, subject := range ofAllQueues(t, role) {
			all = append(all, s.prefix+strings.TrimPrefix(subject, "pq."))
		}
	}
	return all
}

var ofAll = regexp.MustCompile(`A viewer of all queues also publishes (.*), and an administrator of all queues\n(.*)\.\n`)

// ofAllQueues are the subjects of the system that a role for all queues publishes.
func ofAllQueues(t *testing.T, role string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := ofAll.FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("docs/protocol.md does not say what viewers of all queues publish")
	}
	of := map[string]string{"a viewer": found[1], "an administrator": found[1] + found[2]}[role]
	for _, word := range code.FindAllString(of, -1) {
		all = append(all, strings.Trim(word, "`"))
	}
	return all
}

// A server lets each role publish and hear what the page says, for one queue and for all, and nothing else of what there is.
func TestRightsOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			grammar, err := subjects.New(strings.TrimSuffix(s.prefix, "."))
			if err != nil {
				t.Fatal(err)
			}
			if s.tenants {
				grammar = grammar.WithTenants()
			}
			users := []*server.User{{Username: "all", Password: "x"}}
			for role, of := range roles {
				for queue, name := range map[string]string{s.queue: role, "*": role + " of all"} {
					p, err := of(grammar, queue)
					if err != nil {
						t.Fatal(err)
					}
					users = append(users, &server.User{Username: name, Password: "x", Permissions: &server.Permissions{
						Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
					}})
				}
			}
			srv := testenv.NATS(t, func(o *server.Options) { o.Users = users })
			all := srv.Connect(t, nats.UserInfo("all", "x"))
			asked := s.asked(t)
			some := make(map[string]bool) // that a role at one queue publishes
			for role := range roles {
				for _, every := range []bool{false, true} {
					name := role
					if every {
						name += " of all"
					}
					nc := srv.Connect(t, nats.UserInfo(name, "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
					patterns := s.expected(t, role, every)
					passed := arrived(t, nc, all, asked)
					for _, subject := range asked {
						want := slices.ContainsFunc(patterns, func(p string) bool { return subjects.Covers(p, subject) })
						if passed[subject] != want {
							t.Errorf("%s publishes %s: %t, the page says %t", name, subject, passed[subject], want)
						}
						some[subject] = some[subject] || !every && want
					}
					hears := role == "a consumer" || role == "a viewer" || role == "an administrator"
					for _, queue := range s.names {
						subject := "pq." + queue + ".event.dead"
						want := hears && (queue == strings.TrimPrefix(s.prefix, "pq.")+s.queue || every && strings.HasPrefix("pq."+queue, s.prefix))
						if got := len(heard(t, all, nc, "pq."+queue+".event.*", subject)) > 0; got != want {
							t.Errorf("%s hears %s: %t, the page says %t", name, subject, got, want)
						}
					}
					if got := heard(t, all, nc, "pq.>", "pq.jobs.push"); len(got) > 0 {
						t.Errorf("%s hears %v", name, got)
					}
				}
			}
			queue := s.prefix + s.queue + "."
			for _, subject := range asked {
				if strings.HasPrefix(subject, queue) && !some[subject] && !strings.HasPrefix(subject, queue+"event.") {
					t.Errorf("no role publishes %s", subject)
				}
			}
		})
	}
}

// arrived returns which subjects reach a client of all when another publishes them.
func arrived(t *testing.T, from, all *nats.Conn, publish []string) map[string]bool {
	t.Helper()
	return heard(t, from, all, "pq.>", publish...)
}

// heard returns which subjects a client hears by a pattern when another publishes them.
func heard(t *testing.T, from, at *nats.Conn, pattern string, publish ...string) map[string]bool {
	t.Helper()
	sub, err := at.SubscribeSync(pattern)
	if err == nil {
		err = at.Flush()
	}
	for _, subject := range publish {
		if err == nil {
			err = from.Publish(subject, nil)
		}
	}
	// What was published is at the server, and then what it delivers is here.
	if err == nil {
		err = from.Flush()
	}
	if err == nil {
		err = at.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := sub.Pending()
	if err != nil {
		n = 0 // the server refused the subscription
	}
	subjects := make(map[string]bool)
	for range n {
		m, err := sub.NextMsg(testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		subjects[m.Subject] = true
	}
	if err := sub.Unsubscribe(); err != nil && n > 0 {
		t.Fatal(err)
	}
	return subjects
}
