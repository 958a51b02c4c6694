package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// whole is all that pq shows of a queue: the lines in JSON, by the commands and what they are about.
func whole(t *testing.T, w *terminal, queue string) map[string]any {
	t.Helper()
	shown := make(map[string]any)
	for _, command := range []string{"info", "config", "keys", "list --state ready", "list --state delayed", "list --state leased", "schedule ls", "source ls", "link ls"} {
		args := append(strings.Fields(command), queue, "--json")
		if args[0] == "list" {
			args = append(args, "--bodies", "--attempts")
		}
		code, said := pq(t, w.env, args...)
		if code != 0 && code != session.ExitNothing {
			t.Fatalf("%v: exit code %d: %s", args, code, said)
		}
		for decoder := json.NewDecoder(strings.NewReader(said)); code == 0 && decoder.More(); {
			var line map[string]any
			if err := decoder.Decode(&line); err != nil {
				t.Fatalf("%v: %v in %s", args, err, said)
			}
			about := args[0]
			for _, field := range []string{"name", "key", "id"} {
				if text, is := line[field].(string); is {
					about += " " + text
				}
			}
			shown[about] = line
		}
	}
	return shown
}

// differences are the fields in which two values that were read from JSON differ, as "<where>: <one> -> <other>".
func differences(where string, a, b any, found map[string]string) {
	before, isObject := a.(map[string]any)
	after, too := b.(map[string]any)
	if !isObject || !too {
		if !reflect.DeepEqual(a, b) && !sameTime(a, b) {
			found[where] = fmt.Sprint(a, " -> ", b)
		}
		return
	}
	for name := range before {
		differences(where+" "+name, before[name], after[name], found)
	}
	for name := range after {
		if _, is := before[name]; !is {
			differences(where+" "+name, nil, after[name], found)
		}
	}
}

// sameTime reports whether two values are times that differ by no more than the clocks of two stores do.
func sameTime(a, b any) bool {
	var at [2]time.Time
	for i, value := range []any{a, b} {
		text, _ := value.(string)
		var err error
		if at[i], err = time.Parse(time.RFC3339Nano, text); err != nil {
			return false
		}
	}
	return at[0].Sub(at[1]).Abs() < time.Second
}

// A queue that was exported and imported into an empty store is the one that it was, in all that pq shows, but for what is listed here.
func TestExportedQueueIsWhole(t *testing.T) {
	t.Parallel()
	hub := orders(t, "b", "3")()
	edge := hub["hub"]
	edge.Take = map[string][]string{"edge7.orders": {"*"}}
	hub["edge7"] = edge
	remotes := func() map[string]bridge.Remote { return hub }
	from := newTerminal(t, bridge.Options{Remotes: remotes})
	to := newTerminal(t, bridge.Options{Remotes: remotes})
	for _, command := range []string{
		"config jobs lease=1m max_deliveries=3 key_limit=2 ttl=24h",
		"key set jobs ann limit=1 rate=10/1m",
		"source set jobs orders remote=hub stream=ORDERS map={\"priority\":{\"header\":\"Prio\"}} batch=7",
	} {
		from.does(t, strings.Fields(command)...)
	}
	// All three messages are there, and then one more item of each kind.
	for range 3 {
		from.does(t, "pop", "jobs", "--wait", "1m", "--lease", "1h")
	}
	for _, command := range []string{
		"source pause jobs orders",
		"source set jobs taken remote=edge7 queue=edge7.orders link=hub paused=true",
		"push jobs x --key ann --priority 4 -H Color:red --ttl 1h",
		"push jobs y --unique 7 --delay 1h",
		"schedule set jobs daily spec=@daily zone=Europe/Berlin overlap=one catch_up=2h jitter=1m --payload report --priority 2 -H Kind:daily",
		"schedule set jobs weekly spec=@weekly count=3 paused=true start=2027-01-31T09:00:00Z end=2031-01-31T09:00:00Z",
		"schedule set jobs often spec=@every\u00a07h",
		"schedule run jobs daily",
		"link set jobs elsewhere to=d9b1c2",
		"pause jobs",
	} {
		args := strings.Fields(strings.ReplaceAll(command, "\u00a0", "_"))
		for i := range args {
			args[i] = strings.Replace(args[i], "@every_", "@every ", 1)
		}
		from.does(t, args...)
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if said := from.does(t, "export", "jobs", "-o", file); !strings.Contains(said, "exported 3 schedules, 2 sources and 1 link\n") {
		t.Errorf("the export says\n%s", said)
	}
	before := whole(t, from, "jobs")
	if said := to.does(t, "import", "jobs", "--file", file); !strings.Contains(said, "\nmade 3 schedules, 2 sources and 1 link, paused: ") {
		t.Errorf("the import says\n%s", said)
	}
	after := whole(t, to, "jobs")

	found := make(map[string]string)
	differences("", before, after, found)
	if start := found[" source orders start"]; start != "first -> map[seq:4]" { // three messages are done
		t.Errorf("where the source begins: %s", start)
	}
	for _, known := range []string{
		`info (oldest|oldest_of_all|oldest_lease|latest_lease|rates \w+)`, // times
		`info (leased|ready|paused|next_schedule|remembered)`,
		`info explain \w+`, // of the pause
		`keys ann waits_for`,
		`list \S+ (state|due|since|interruptions)`, // what was leased
		`schedule (daily|often) (paused|next|due)`,
		`schedule often start`,
		`source orders (seq|time|runner|counts \w+|start|last|lag)`,
		`source \w+ (state|reason|since)`,
		`link elsewhere (paused|state)`,
	} {
		at := regexp.MustCompile("^ " + known + "$")
		maps.DeleteFunc(found, func(field, _ string) bool { return at.MatchString(field) })
	}
	for field, what := range found {
		t.Errorf("%s: %s", field, what)
	}
}

// Who may not read what a queue has by names exports the rest, and hears what is missing. Who may not set it imports the items.
func TestExportOfWhatOneMaySee(t *testing.T) {
	t.Parallel()
	may := func(user string, subjects ...string) *server.User {
		return &server.User{Username: user, Password: "secret", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: subjects},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}
	}
	s := testenv.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			may("pqd", ">"),
			may("items", "pq.*.info", "pq.*.list", "pq.*.get.*", "pq.*.keys", "pq.*.links", "pq.*.import", "pq.*.admin.*"),
		}
		o.Users[0].Permissions = nil
	})
	startBridge(t, s, "pqd", "secret")
	as := func(user string, args ...string) (int, string) {
		env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_USER=" + user, "NATS_PASSWORD=secret", "NATS_TIMEOUT=" + testenv.Patience().String()}
		return pq(t, env, args...)
	}
	for _, command := range []string{"push jobs x", "schedule set jobs daily spec=@daily", "link set jobs hub to=d9b1c2"} {
		if code, text := as("pqd", strings.Fields(command)...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", command, code, text)
		}
	}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	code, text := as("items", "export", "jobs", "-o", file)
	if code != 0 || !strings.Contains(text, "exported 1 item\nexported 1 link\nleft out the schedules: this user may not read them\nleft out the sources: this user may not read them\n") {
		t.Errorf("export without the right to read schedules and sources: exit code %d: %s", code, text)
	}
	if code, text := as("pqd", "export", "jobs", "-o", file, "--force"); code != 0 || !strings.Contains(text, "exported 1 schedule and 1 link\n") {
		t.Errorf("export: exit code %d: %s", code, text)
	}
	code, text = as("items", "import", "copy", "--file", file)
	if code != session.ExitFailed || !strings.Contains(text, "all 1 item of the export are there, unchanged\n") || !strings.Contains(text, "does not let this user do that") {
		t.Errorf("import without the right to set schedules: exit code %d: %s", code, text)
	}
	// With the right, the same command makes what is missing, and nothing twice.
	for _, says := range []string{"made 1 schedule and 1 link, paused", "kept 2 of the queue that have the names of those in the export"} {
		if code, text = as("pqd", "import", "copy", "--file", file); code != 0 || !strings.Contains(text, says) {
			t.Errorf("import: exit code %d, expected %q: %s", code, says, text)
		}
	}
	if code, text := as("pqd", "info", "copy", "--json"); code != 0 || !strings.Contains(text, `"paused":false`) {
		t.Errorf("the queue: exit code %d: %s", code, text)
	}
}
