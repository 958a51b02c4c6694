package subjects_test

import (
	"math"
	"strings"
	"testing"

	. "github.com/pqbridge/pqbridge/subjects"
)

func grammar(t testing.TB, prefix string) Grammar {
	t.Helper()
	g, err := New(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var (
	name64 = strings.Repeat("q", 64)
	id128  = strings.Repeat("i", 128)

	escaped128 = strings.Repeat("%C3%A9", 64)
)

// Keys with other bytes than names have, as they stand in a subject.
var escapedKeys = map[string]string{
	"a.b":                        "a%2Eb",
	"Ann & S\u00f6hne":           "Ann%20%26%20S%C3%B6hne",
	"*":                          "%2A",
	">":                          "%3E",
	"100%":                       "100%25",
	"\xff\x00":                   "%FF%00",
	strings.Repeat("\u00e9", 64): escaped128,
}

func TestEscapedKeys(t *testing.T) {
	g := grammar(t, "pq")
	for key, token := range escapedKeys {
		for _, verb := range []Verb{Key, AdminKey} {
			want := Subject{Queue: "jobs", Verb: verb, Key: key}
			text, err := g.Build(want)
			if err != nil || text != "pq.jobs."+verb.String()+"."+token {
				t.Errorf("build %+v: %q, %v", want, text, err)
			}
			if got, err := g.Parse(text); err != nil || got != want {
				t.Errorf("parse %q: %+v, %v", text, got, err)
			}
		}
	}
}

// wellFormed are subjects without their prefix.
var wellFormed = map[string]Subject{
	"jobs.push":                      {Queue: "jobs", Verb: Push},
	"jobs.push.5":                    {Queue: "jobs", Verb: Push, Priority: 5, HasPriority: true},
	"jobs.push.0":                    {Queue: "jobs", Verb: Push, HasPriority: true},
	"jobs.push.-3":                   {Queue: "jobs", Verb: Push, Priority: -3, HasPriority: true},
	"jobs.push.9223372036854775807":  {Queue: "jobs", Verb: Push, Priority: math.MaxInt64, HasPriority: true},
	"jobs.push.-9223372036854775808": {Queue: "jobs", Verb: Push, Priority: math.MinInt64, HasPriority: true},
	"jobs.import":                    {Queue: "jobs", Verb: Import},
	"jobs.pop.min":                   {Queue: "jobs", Verb: PopMin},
	"jobs.pop.max":                   {Queue: "jobs", Verb: PopMax},
	"jobs.peek.min":                  {Queue: "jobs", Verb: PeekMin},
	"jobs.peek.max":                  {Queue: "jobs", Verb: PeekMax},
	"jobs.ack.c1.t-0_K":              {Queue: "jobs", Verb: Ack, Conn: "c1", Token: "t-0_K"},
	"jobs.info":                      {Queue: "jobs", Verb: Info},
	"jobs.list":                      {Queue: "jobs", Verb: List},
	"jobs.get.AbC-_9":                {Queue: "jobs", Verb: Get, ID: "AbC-_9"},
	"jobs.get." + id128:              {Queue: "jobs", Verb: Get, ID: id128},
	"jobs.remove.x":                  {Queue: "jobs", Verb: Remove, ID: "x"},
	"jobs.requeue.x":                 {Queue: "jobs", Verb: Requeue, ID: "x"},
	"jobs.revoke.x":                  {Queue: "jobs", Verb: Revoke, ID: "x"},
	"jobs.move.x.-1":                 {Queue: "jobs", Verb: Move, ID: "x", Priority: -1, HasPriority: true},
	"jobs.move.push.0":               {Queue: "jobs", Verb: Move, ID: "push", HasPriority: true},
	"jobs.keys":                      {Queue: "jobs", Verb: Keys},
	"jobs.schedules":                 {Queue: "jobs", Verb: Schedules},
	"jobs.schedule.a-Z_9":            {Queue: "jobs", Verb: Schedule, Schedule: "a-Z_9"},
	"jobs.admin.schedule.s":          {Queue: "jobs", Verb: AdminSchedule, Schedule: "s"},
	"jobs.admin.schedule.run.run":    {Queue: "jobs", Verb: AdminScheduleRun, Schedule: "run"},
	"jobs.admin.schedule.s.pause":    {Queue: "jobs", Verb: AdminSchedulePause, Schedule: "s"},
	"jobs.admin.schedule.s.resume":   {Queue: "jobs", Verb: AdminScheduleResume, Schedule: "s"},
	"jobs.sources":                   {Queue: "jobs", Verb: Sources},
	"jobs.admin.source.s":            {Queue: "jobs", Verb: AdminSource, Source: "s"},
	"jobs.admin.source.pause.pause":  {Queue: "jobs", Verb: AdminSourcePause, Source: "pause"},
	"jobs.admin.source.s.resume":     {Queue: "jobs", Verb: AdminSourceResume, Source: "s"},
	"jobs.admin.source.s.delete":     {Queue: "jobs", Verb: AdminSourceDelete, Source: "s"},
	"jobs.links":                     {Queue: "jobs", Verb: Links},
	"jobs.link.hub":                  {Queue: "jobs", Verb: Link, Link: "hub"},
	"jobs.admin.link.s":              {Queue: "jobs", Verb: AdminLink, Link: "s"},
	"jobs.admin.link.s.pause":        {Queue: "jobs", Verb: AdminLinkPause, Link: "s"},
	"jobs.admin.link.resume.resume":  {Queue: "jobs", Verb: AdminLinkResume, Link: "resume"},
	"jobs.admin.link.s.delete":       {Queue: "jobs", Verb: AdminLinkDelete, Link: "s"},
	"jobs.admin.schedule.s.delete":   {Queue: "jobs", Verb: AdminScheduleDelete, Schedule: "s"},
	"jobs.key.Ann-1_x":               {Queue: "jobs", Verb: Key, Key: "Ann-1_x"},
	"jobs.admin.key." + id128:        {Queue: "jobs", Verb: AdminKey, Key: id128},
	"jobs.admin.config":              {Queue: "jobs", Verb: AdminConfig},
	"jobs.admin.purge":               {Queue: "jobs", Verb: AdminPurge},
	"jobs.admin.pause":               {Queue: "jobs", Verb: AdminPause},
	"jobs.admin.resume":              {Queue: "jobs", Verb: AdminResume},
	"jobs.admin.delete":              {Queue: "jobs", Verb: AdminDelete},
	"jobs.admin.remove":              {Queue: "jobs", Verb: AdminRemove},
	"jobs.admin.move":                {Queue: "jobs", Verb: AdminMove},
	"jobs.admin.revoke":              {Queue: "jobs", Verb: AdminRevoke},
	"jobs.admin.requeue":             {Queue: "jobs", Verb: AdminRequeue},
	"jobs.event.lease_lost":          {Queue: "jobs", Verb: Event, Event: "lease_lost"},
	"_sys.list":                      {Verb: SysList},
	"_sys.info":                      {Verb: SysInfo},
	"_sys.cluster.status":            {Verb: SysClusterStatus},
	"_sys.cluster.step-down":         {Verb: SysClusterStepDown},
	"_sys.cluster.replace":           {Verb: SysClusterReplace},
	"q.push":                         {Queue: "q", Verb: Push},
	"-.push":                         {Queue: "-", Verb: Push},
	"a_b-C9.pop.min":                 {Queue: "a_b-C9", Verb: PopMin},
	"push.push":                      {Queue: "push", Verb: Push},
	"sys.list":                       {Queue: "sys", Verb: List},
	name64 + ".push":                 {Queue: name64, Verb: Push},
	name64 + "-dead.pop.min":         {Queue: name64 + "-dead", Verb: PopMin},
	"jobs-dead.pop.max":              {Queue: "jobs-dead", Verb: PopMax},
}

func TestWellFormed(t *testing.T) {
	for _, prefix := range []string{"pq", "a.b-c.D_9", strings.Repeat("p", MaxPrefix), "pq.push"} {
		g := grammar(t, prefix)
		if g.Prefix() != prefix {
			t.Errorf("the prefix is %q, want %q", g.Prefix(), prefix)
		}
		for text, want := range wellFormed {
			text = prefix + "." + text
			got, err := g.Parse(text)
			if err != nil {
				t.Errorf("parse %q: %v", text, err)
			} else if got != want {
				t.Errorf("parse %q:\n got %+v\nwant %+v", text, got, want)
			}
			if built, err := g.Build(want); err != nil || built != text {
				t.Errorf("build %+v:\n got %q, %v\nwant %q", want, built, err, text)
			}
		}
	}
}

const (
	ruleQueue    = "1 to 64 of A-Z a-z 0-9 - _, not starting with _ (69 when it ends in -dead)"
	ruleVerb     = "expected one of push, import, pop.min, pop.max, peek.min, peek.max, ack, info, list, get, result, cancel, remove, move, requeue, revoke, keys, key, schedules, schedule, sources, links, link, admin.config, admin.purge, admin.pause, admin.resume, admin.delete, admin.remove, admin.move, admin.revoke, admin.requeue, admin.key, admin.schedule, admin.source, admin.link, event"
	rulePriority = "expected an integer in decimal, without +, leading zeros or spaces"
	ruleRange    = "expected -9223372036854775808 to 9223372036854775807"
	ruleID       = "expected 1 to 128 of A-Z a-z 0-9 - _"
	ruleKey      = "expected 1 to 128 bytes, of which A-Z a-z 0-9 - _ stand as they are, and all others as %XX in upper case"
	ruleToken    = "expected one or more of A-Z a-z 0-9 - _"
	rulePush     = "expected push or push.<priority> after the queue's name"
	ruleSys      = "expected list, info, cluster.status, cluster.step-down or cluster.replace alone after _sys"
)

// malformed maps subjects, here with their prefix, to what the error names.
var malformed = map[string]string{
	"":                                     `subject "": expected one that starts with "pq."`,
	"pq":                                   `subject "pq": expected one that starts with "pq."`,
	"PQ.jobs.push":                         `starts with "pq."`,
	"pqx.jobs.push":                        `starts with "pq."`,
	"jobs.push":                            `starts with "pq."`,
	".pq.jobs.push":                        `starts with "pq."`,
	"_INBOX.abc":                           `starts with "pq."`,
	"pq.":                                  ruleQueue,
	"pq..push":                             `queue name "": expected ` + ruleQueue,
	"pq...":                                ruleQueue,
	"pq.*":                                 ruleQueue,
	"pq.>":                                 ruleQueue,
	"pq.*.push":                            `queue name "*": expected ` + ruleQueue,
	"pq._.push":                            ruleQueue,
	"pq._jobs.push":                        ruleQueue,
	"pq._SYS.list":                         ruleQueue,
	"pq.jo bs.push":                        ruleQueue,
	"pq.jobs\t.push":                       ruleQueue,
	"pq.jobs\r\n.pop":                      ruleQueue,
	"pq.jöbs.push":                         `queue name "j\u00f6bs": expected ` + ruleQueue,
	"pq.jobs\xff.pop":                      ruleQueue,
	"pq.jobs.import.5":                     "expected import alone after the queue's name",
	"pq.$jobs.push":                        ruleQueue,
	"pq.jobs/1.push":                       ruleQueue,
	"pq." + name64 + "q.push":              ruleQueue,
	"pq." + name64 + "q-dead.push":         ruleQueue,
	"pq." + name64 + "-deaf.push":          ruleQueue,
	"pq._" + name64[:60] + "-dead.push":    ruleQueue,
	"pq.jobs":                              `verb "": ` + ruleVerb,
	"pq.jobs.":                             ruleVerb,
	"pq.jobs..":                            ruleVerb,
	"pq.jobs.*":                            `verb "*": ` + ruleVerb,
	"pq.jobs.>":                            ruleVerb,
	"pq.jobs.Push":                         ruleVerb,
	"pq.jobs.pushed":                       ruleVerb,
	"pq.jobs.delete":                       ruleVerb,
	"pq.jobs._sys.list":                    ruleVerb,
	"pq.jobs.5.push":                       ruleVerb,
	"pq.jobs.push.":                        `priority "": ` + rulePriority,
	"pq.jobs.push.*":                       rulePriority,
	"pq.jobs.push.>":                       rulePriority,
	"pq.jobs.push.+5":                      `priority "+5": ` + rulePriority,
	"pq.jobs.push.05":                      rulePriority,
	"pq.jobs.push.00":                      rulePriority,
	"pq.jobs.push.-0":                      rulePriority,
	"pq.jobs.push.-05":                     rulePriority,
	"pq.jobs.push.-":                       rulePriority,
	"pq.jobs.push.--5":                     rulePriority,
	"pq.jobs.push.5 ":                      rulePriority,
	"pq.jobs.push.0x5":                     rulePriority,
	"pq.jobs.push.1_000":                   rulePriority,
	"pq.jobs.push.1e3":                     rulePriority,
	"pq.jobs.push.high":                    rulePriority,
	"pq.jobs.push.\u0665":                  rulePriority, // a digit, but not ASCII
	"pq.jobs.push.1.5":                     rulePush,
	"pq.jobs.push.5.":                      rulePush,
	"pq.jobs.push.high.5":                  rulePush,
	"pq.jobs.push.9223372036854775808":     ruleRange,
	"pq.jobs.push.-9223372036854775809":    ruleRange,
	"pq.jobs.push.100000000000000000000":   ruleRange,
	"pq.jobs.pop":                          "expected pop.min or pop.max after the queue's name",
	"pq.jobs.pop.":                         "expected pop.min or pop.max",
	"pq.jobs.pop.mid":                      "expected pop.min or pop.max",
	"pq.jobs.pop.*":                        "expected pop.min or pop.max",
	"pq.jobs.pop.min.5":                    "expected pop.min or pop.max",
	"pq.jobs.pop.min.":                     "expected pop.min or pop.max",
	"pq.jobs.peek":                         "expected peek.min or peek.max",
	"pq.jobs.peek.MIN":                     "expected peek.min or peek.max",
	"pq.jobs.peek.max.x":                   "expected peek.min or peek.max",
	"pq.jobs.ack":                          "expected ack.<connection>.<token>",
	"pq.jobs.ack.c":                        "expected ack.<connection>.<token>",
	"pq.jobs.ack.c.t.u":                    "expected ack.<connection>.<token>",
	"pq.jobs.ack.c.":                       `token "": ` + ruleToken,
	"pq.jobs.ack..t":                       `connection "": ` + ruleToken,
	"pq.jobs.ack.*.t":                      `connection "*": ` + ruleToken,
	"pq.jobs.ack.c.>":                      `token ">": ` + ruleToken,
	"pq.jobs.ack.c.t=":                     `token "t=": ` + ruleToken,
	"pq.jobs.info.":                        "expected info alone",
	"pq.jobs.info.x":                       "expected info alone",
	"pq.jobs.list.100":                     "expected list alone",
	"pq.jobs.get":                          "expected get.<id>",
	"pq.jobs.get.":                         `id "": ` + ruleID,
	"pq.jobs.get.*":                        ruleID,
	"pq.jobs.get.a+b":                      ruleID,
	"pq.jobs.get.a.b":                      "expected get.<id>",
	"pq.jobs.get." + id128 + "i":           ruleID,
	"pq.jobs.remove":                       "expected remove.<id>",
	"pq.jobs.requeue":                      "expected requeue.<id>",
	"pq.jobs.revoke":                       "expected revoke.<id>",
	"pq.jobs.remove.>":                     ruleID,
	"pq.jobs.remove.a.b":                   "expected remove.<id>",
	"pq.jobs.move":                         "expected move.<id>.<priority>",
	"pq.jobs.move.x":                       "expected move.<id>.<priority>",
	"pq.jobs.move.x.1.2":                   "expected move.<id>.<priority>",
	"pq.jobs.move.x.":                      rulePriority,
	"pq.jobs.move.x.01":                    rulePriority,
	"pq.jobs.move..1":                      ruleID,
	"pq.jobs.move.x.9223372036854775808":   ruleRange,
	"pq.jobs.admin":                        "expected admin.config, admin.purge, admin.pause, admin.resume, admin.delete, admin.remove, admin.move, admin.revoke, admin.requeue, admin.key.<key>, admin.schedule.<name>, admin.source.<name> or admin.link.<name>",
	"pq.jobs.admin.":                       "expected admin.config",
	"pq.jobs.admin.drop":                   "expected admin.config",
	"pq.jobs.admin.purge.all":              "expected admin.config",
	"pq.jobs.admin.remove.x":               "expected admin.config",
	"pq.jobs.keys.x":                       "expected keys alone",
	"pq.jobs.schedules.x":                  "expected schedules alone",
	"pq.jobs.schedule":                     "expected schedule.<name>",
	"pq.jobs.schedule.s.t":                 "expected schedule.<name>",
	"pq.jobs.schedule.s%20":                "expected a name of 1 to 64",
	"pq.jobs.sources.x":                    "expected sources alone",
	"pq.jobs.admin.source":                 "expected admin.source.<name>",
	"pq.jobs.admin.source.s.run":           "expected admin.source.<name>",
	"pq.jobs.admin.source.s.pause.x":       "expected admin.source.<name>",
	"pq.jobs.admin.source.a%20":            "source \"a%20\": expected a name of 1 to 64",
	"pq.jobs.links.x":                      "expected links alone",
	"pq.jobs.link":                         "expected link.<name>",
	"pq.jobs.link.a.b":                     "expected link.<name>",
	"pq.jobs.link.a%20":                    "link \"a%20\": expected a name of 1 to 64",
	"pq.jobs.admin.link":                   "expected admin.link.<name>",
	"pq.jobs.admin.link.s.run":             "expected admin.link.<name>",
	"pq.jobs.admin.link.s.pause.x":         "expected admin.link.<name>",
	"pq.jobs.admin.link.a%20":              "link \"a%20\": expected a name of 1 to 64",
	"pq.jobs.admin.schedule":               "expected admin.schedule.<name>",
	"pq.jobs.admin.schedule.s.stop":        "expected admin.schedule.<name>",
	"pq.jobs.admin.schedule.s.run.x":       "expected admin.schedule.<name>",
	"pq.jobs.admin.schedule.a b":           "expected a name of 1 to 64",
	"pq.jobs.key":                          "expected key.<key>",
	"pq.jobs.key.":                         `key "": ` + ruleKey,
	"pq.jobs.key.*":                        `key "*": ` + ruleKey,
	"pq.jobs.key.>":                        ruleKey,
	"pq.jobs.key.a.b":                      "expected key.<key>",
	"pq.jobs.key.a+b":                      ruleKey,
	"pq.jobs.key.a%2bb":                    `key "a%2bb": ` + ruleKey,
	"pq.jobs.key.%41":                      ruleKey,
	"pq.jobs.key.%2D":                      ruleKey,
	"pq.jobs.key.%":                        ruleKey,
	"pq.jobs.key.a%2":                      ruleKey,
	"pq.jobs.key.%G0":                      ruleKey,
	"pq.jobs.key.%%41":                     ruleKey,
	"pq.jobs.key.\u00e9":                   ruleKey,
	"pq.jobs.key." + id128 + "i":           ruleKey,
	"pq.jobs.key." + escaped128 + "%20":    ruleKey,
	"pq.jobs.key." + escaped128 + "a":      ruleKey,
	"pq.jobs.admin.key":                    "expected admin.config",
	"pq.jobs.admin.key.":                   ruleKey,
	"pq.jobs.admin.key.a.b":                "expected admin.config",
	"pq.jobs.admin.key.%2f":                ruleKey,
	"pq.jobs.event":                        "expected event.<type>",
	"pq.jobs.event.":                       `event type "": ` + ruleToken,
	"pq.jobs.event.*":                      ruleToken,
	"pq.jobs.event.a.b":                    "expected event.<type>",
	"pq._sys":                              ruleSys,
	"pq._sys.":                             ruleSys,
	"pq._sys.push":                         ruleSys,
	"pq._sys.list.x":                       ruleSys,
	"pq._sys.info.":                        ruleSys,
	"pq._sys.cluster":                      ruleSys,
	"pq._sys.cluster.stop":                 ruleSys,
	"pq._sys.cluster.status.x":             ruleSys,
	"pq.jobs." + strings.Repeat("x", 4000): ruleVerb,
	"pq." + strings.Repeat("x", 4000):      ruleQueue,
	strings.Repeat("\x00", 4000):           `starts with "pq."`,
	"pq.jobs.push." + strings.Repeat("9", 4000):                 ruleRange,
	"pq.jobs.get." + strings.Repeat("\u00e9", 2000) + ".x.y.z.": "expected get.<id>",

	"pq.jobs.ack.c." + strings.Repeat("t", MaxToken+1):      "is too long: expected at most 512 bytes",
	"pq.jobs.ack." + strings.Repeat("c", MaxToken+1) + ".t": "is too long: expected at most 512 bytes",
}

func TestMalformed(t *testing.T) {
	g := grammar(t, "pq")
	for text, want := range malformed {
		got, err := g.Parse(text)
		if err == nil {
			t.Errorf("parse %q: got %+v, want an error", text, got)
			continue
		}
		if got != (Subject{}) {
			t.Errorf("parse %q: got %+v beside an error", text, got)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("parse %q:\nerror %q\nwant  %q in it", text, err, want)
		}
		checkErrorText(t, err)
	}
	if _, err := (Grammar{}).Parse("jobs.push"); err == nil {
		t.Error("a grammar without a prefix parses")
	}
}

// checkErrorText holds an error to what a header can carry.
func checkErrorText(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > 700 {
		t.Errorf("error of %d bytes: %s", len(text), text)
	}
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			t.Errorf("error with byte %#x: %q", c, text)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	g := grammar(t, "pq")
	for _, tc := range []struct {
		subject Subject
		want    string
	}{
		{Subject{}, "without a verb"},
		{Subject{Queue: "jobs"}, "without a verb"},
		{Subject{Queue: "jobs", Verb: Verbs}, "without a verb"},
		{Subject{Verb: Push}, ruleQueue},
		{Subject{Queue: "_sys", Verb: List}, ruleQueue},
		{Subject{Queue: "*", Verb: Push}, ruleQueue},
		{Subject{Queue: "jobs.push", Verb: Push}, ruleQueue},
		{Subject{Queue: "jobs", Verb: SysList}, "only the fields that _sys.list has"},
		{Subject{Queue: "jobs", Verb: Push, Priority: 5}, "only the fields that push has"},
		{Subject{Queue: "jobs", Verb: Push, ID: "x"}, "only the fields that push has"},
		{Subject{Queue: "jobs", Verb: PopMin, HasPriority: true}, "expected pop.min"},
		{Subject{Queue: "jobs", Verb: PopMin, Token: "x"}, "only the fields"},
		{Subject{Queue: "jobs", Verb: Ack, Conn: "c"}, ruleToken},
		{Subject{Queue: "jobs", Verb: Ack, Conn: "c.d", Token: "t"}, "expected ack.<connection>.<token>"},
		{Subject{Queue: "jobs", Verb: Get}, ruleID},
		{Subject{Queue: "jobs", Verb: Get, ID: "a.b"}, "expected get.<id>"},
		{Subject{Queue: "jobs", Verb: Move, ID: "x"}, "and all of them"},
		{Subject{Queue: "jobs", Verb: Move, ID: "x.5", HasPriority: true}, "expected move"},
		{Subject{Queue: "jobs", Verb: Event}, ruleToken},
		{Subject{Queue: "jobs", Verb: Key}, ruleKey},
		{Subject{Queue: "jobs", Verb: Schedule, Schedule: "a.b"}, "schedule \"a.b\": expected a name"},
		{Subject{Queue: "jobs", Verb: AdminSourceResume, Source: "a.b"}, "source \"a.b\": expected a name"},
		{Subject{Queue: "jobs", Verb: AdminLink}, "link \"\": expected a name"},
		{Subject{Queue: "jobs", Verb: AdminKey, Key: id128 + "i"}, ruleKey},
		{Subject{Queue: "jobs", Verb: Keys, Key: "x"}, "only the fields"},
		{Subject{Queue: "jobs", Verb: Info, Conn: "c"}, "only the fields"},
	} {
		got, err := g.Build(tc.subject)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("build %+v: %q, error %v, want one with %q", tc.subject, got, err, tc.want)
		}
		if got != "" {
			t.Errorf("build %+v: %q beside an error", tc.subject, got)
		}
	}
}

func TestNew(t *testing.T) {
	for _, bad := range []string{
		"", ".", "pq.", ".pq", "a..b", "*", "pq.*", ">", "pq.>", "$SYS", "$JS.API", "p q", "pq\n", "pé",
		"_INBOX", "_", "_pq.a", strings.Repeat("p", MaxPrefix+1),
	} {
		_, err := New(bad)
		if err == nil || !strings.Contains(err.Error(), "expected tokens of A-Z a-z 0-9 - _ joined by dots") {
			t.Errorf("prefix %q: error %v", bad, err)
			continue
		}
		checkErrorText(t, err)
	}
}

func TestDeadLetter(t *testing.T) {
	if got := DeadLetter("jobs"); got != "jobs-dead" {
		t.Errorf("got %q", got)
	}
	if err := CheckQueue(DeadLetter(name64)); err != nil {
		t.Errorf("the dead-letter queue of the longest name: %v", err)
	}
}

// The names of queues in a store are those of queues, with a tenant or without.
func TestStoredNames(t *testing.T) {
	for name, good := range map[string]bool{"jobs": true, "acme.jobs": true, DeadLetter(name64): true, "": false, ".": false, "..": false, "a.b.c": false, ".jobs": false, "acme.": false,
		"_sys": false, "acme._sys": false, "../jobs": false, "a/b": false, "a\x1b": false, name64 + "x": false} {
		if err := CheckStored(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestVerbString(t *testing.T) {
	seen := map[string]bool{}
	for v := Push; v < Verbs; v++ {
		if s := v.String(); s == "" || s == "none" || seen[s] {
			t.Errorf("verb %d is called %q", v, s)
		} else {
			seen[s] = true
		}
	}
	if s := Verb(0).String() + Verb(Verbs).String(); s != "nonenone" {
		t.Errorf("what is no verb is called %q", s)
	}
}

func TestAppendAck(t *testing.T) {
	g := grammar(t, "a.pq")
	buf := make([]byte, 0, 128)
	token := []byte("t_1")
	got := string(g.AppendAck(buf, "jobs", "c1", token))
	want, err := g.Build(Subject{Queue: "jobs", Verb: Ack, Conn: "c1", Token: "t_1"})
	if err != nil || got != want {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
	if n := testing.AllocsPerRun(100, func() { buf = g.AppendAck(buf[:0], "jobs", "c1", token) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	g := grammar(t, "pq")
	for text := range wellFormed {
		text = "pq." + text
		var err error
		if n := testing.AllocsPerRun(100, func() { _, err = g.Parse(text) }); n != 0 || err != nil {
			t.Errorf("%q: %v allocations, error %v", text, n, err)
		}
	}
}

// FuzzParse: what parses builds to the same text; what does not has an error
// that can be sent.
func FuzzParse(f *testing.F) {
	for text := range wellFormed {
		f.Add("pq." + text)
	}
	for text := range malformed {
		f.Add(text)
	}
	for _, token := range escapedKeys {
		f.Add("pq.jobs.admin.key." + token)
	}
	g := grammar(f, "pq")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := g.Parse(text)
		if err != nil {
			checkErrorText(t, err)
			return
		}
		if built, err := g.Build(s); err != nil || built != text {
			t.Errorf("%q parses to %+v, which builds to %q, %v", text, s, built, err)
		}
	})
}

// FuzzBuild: what builds parses to the same fields.
func FuzzBuild(f *testing.F) {
	for _, s := range wellFormed {
		f.Add(s.Queue, uint8(s.Verb), s.Priority, s.HasPriority, s.ID, s.Key, s.Event, s.Conn, s.Token)
	}
	g := grammar(f, "a.pq")
	f.Fuzz(func(t *testing.T, queue string, verb uint8, priority int64, has bool, id, key, event, conn, token string) {
		s := Subject{Queue: queue, Verb: Verb(verb), Priority: priority, HasPriority: has,
			ID: id, Key: key, Event: event, Conn: conn, Token: token}
		text, err := g.Build(s)
		if err != nil {
			checkErrorText(t, err)
			return
		}
		if got, err := g.Parse(text); err != nil || got != s {
			t.Errorf("%+v builds to %q, which parses to %+v, %v", s, text, got, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	g := grammar(b, "pq")
	for _, text := range []string{"pq.jobs.push", "pq.jobs.push.-12345", "pq.jobs.pop.min",
		"pq.jobs.ack.c1.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := g.Parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
