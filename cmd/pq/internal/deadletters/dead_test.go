package deadletters

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// Ids and long numbers make no group of their own, words and short numbers do.
var alikes = []struct{ cause, want string }{
	{"", ""},
	{"no such address", "no such address"},
	{"order 12345 is unknown", "order # is unknown"},
	{"status 404", "status 404"},
	{"timeout after 1500ms", "timeout after #ms"},
	{"item 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is gone", "item # is gone"},
	{"6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "#"},
	{"x6ba7b810-9dad-11d1-80b4-00c04fd430c8x", "x#x"},
	{"commit deadbeef", "commit deadbeef"},
	{"commit deadbee1, DEADBEE2", "commit #, #"},
	{"a1b2c3d", "a1b2c3d"},
	{"deadbeef1234x", "deadbeef#x"},
	{"10.0.0.12:65535", "10.0.0.12:#"},
	{"99999999 88888888", "# #"},
	{"über12345678ſ", "über#ſ"},
}

func TestAlike(t *testing.T) {
	t.Parallel()
	for _, tc := range alikes {
		if got := Alike(tc.cause); got != tc.want {
			t.Errorf("%q: %q, expected %q", tc.cause, got, tc.want)
		}
	}
}

// The console makes the same groups.
func TestConsoleGroupsAlike(t *testing.T) {
	t.Parallel()
	node, err := tools.Find("node")
	if err != nil {
		t.Skip("NOT TESTED WITH THE CONSOLE: there is no node")
	}
	module, err := filepath.Abs("../../../../internal/console/page/why.js")
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var causes []string
	for _, tc := range alikes[1:] { // dead letters have a cause
		causes = append(causes, tc.cause)
	}
	parts := []string{"a", "f", "g", "D", "0", "7", "12", "345", "6789", "-", " ", "é", "K", "_", "6ba7b810", "-9dad-11d1-80b4-", "00c04fd430c8"}
	for range 3000 {
		var text strings.Builder
		for range 1 + rng.IntN(12) {
			text.WriteString(parts[rng.IntN(len(parts))])
		}
		causes = append(causes, text.String())
	}
	given, err := json.Marshal(causes)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), node, "--input-type=module", "-e",
		`import { readFileSync } from "node:fs";
		const { alike, why } = await import(process.argv[1]);
		const dead = { reason: "max_deliveries", origin: "jobs" };
		console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map((cause) => alike(why({ cause, dead, last_attempts: [{ reason: "another" }] })))));`, module)
	run.Stdin = strings.NewReader(string(given))
	printed, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal(printed, &names); err != nil || len(names) != len(causes) {
		t.Fatal(len(names), err)
	}
	for i, cause := range causes {
		if got := Alike(cause); got != names[i] {
			t.Errorf("seed %d, %q: %q, in the console %q", seed, cause, got, names[i])
		}
	}
}

// Dead letters are counted by the queue that they come from and by what they have in common, the most first.
func TestGroups(t *testing.T) {
	t.Parallel()
	groups := Groups{}
	at := time.Unix(1_700_000_000, 0)
	for i, one := range [][2]string{{"jobs", "order 1234"}, {"jobs", "no paper"}, {"mail", "order 1234"}, {"jobs", "order 5678"}, {"jobs", "interruptions"}} {
		groups.Add(&client.Listed{Cause: one[1], Dead: &client.Death{Origin: one[0], At: at.Add(-time.Duration(i) * time.Minute)}})
	}
	var got []Group
	for _, group := range groups.Largest() {
		got = append(got, *group)
	}
	want := []Group{
		{"jobs", "order #", 2, at}, {"jobs", "interruptions", 1, at.Add(-4 * time.Minute)},
		{"jobs", "no paper", 1, at.Add(-time.Minute)}, {"mail", "order #", 1, at.Add(-2 * time.Minute)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, expected %+v", got, want)
	}
}
