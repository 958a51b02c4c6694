package calendar

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func times(t *testing.T, r Rule, after string, n int) (all []string) {
	t.Helper()
	c, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	from, err := time.Parse(time.RFC3339Nano, after)
	if err != nil {
		t.Fatal(err)
	}
	for _, next := range c.Preview(from, n) {
		all = append(all, next.Format(time.RFC3339Nano))
	}
	return all
}

func TestTimes(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name  string
		rule  Rule
		after string
		want  string
	}{
		{"five fields", Rule{Spec: "30 2 * * *"}, "2026-01-01T00:00:00Z", "2026-01-01T02:30:00Z 2026-01-02T02:30:00Z"},
		{"not the instant itself", Rule{Spec: "30 2 * * *"}, "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"},
		{"a nanosecond before", Rule{Spec: "30 2 * * *"}, "2026-01-01T02:29:59.999999999Z", "2026-01-01T02:30:00Z"},
		{"six fields", Rule{Spec: "15,45 0 0 1 1 *"}, "2026-01-01T00:00:20Z", "2026-01-01T00:00:45Z 2027-01-01T00:00:15Z"},
		{"7 is Sunday", Rule{Spec: "0 0 * * 7"}, "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"to 7", Rule{Spec: "0 0 * * 6-7"}, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-10T00:00:00Z"},
		{"a step does not reach 7", Rule{Spec: "0 0 * * 1/2"}, "2026-01-03T00:00:00Z", "2026-01-05T00:00:00Z 2026-01-07T00:00:00Z 2026-01-09T00:00:00Z 2026-01-12T00:00:00Z"},
		{"names", Rule{Spec: "0 9 * JAN-feb Mon"}, "2026-01-26T09:00:00Z", "2026-02-02T09:00:00Z 2026-02-09T09:00:00Z"},
		{"either day", Rule{Spec: "0 0 13 * fri"}, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z 2026-01-09T00:00:00Z 2026-01-13T00:00:00Z"},
		{"a stepped star restricts", Rule{Spec: "0 0 */10 * mon"}, "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z 2026-01-11T00:00:00Z 2026-01-12T00:00:00Z"},
		{"? is *", Rule{Spec: "0 0 ? * mon"}, "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z 2026-01-12T00:00:00Z"},
		{"29 February", Rule{Spec: "0 0 29 2 *"}, "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"@hourly", Rule{Spec: "@hourly"}, "2026-01-01T00:30:00Z", "2026-01-01T01:00:00Z"},
		{"@weekly", Rule{Spec: "@weekly"}, "2026-01-01T00:30:00Z", "2026-01-04T00:00:00Z"},
		{"@yearly in a zone", Rule{Spec: "@yearly", Zone: "Asia/Tokyo"}, "2026-01-01T00:30:00Z", "2026-12-31T15:00:00Z"},
		{"@at", Rule{Spec: "@at 2026-01-01T09:00:00.5+09:00"}, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z"},
		{"@at once", Rule{Spec: "@at 2026-01-01T09:00:00Z"}, "2026-01-01T09:00:00Z", ""},
		{"@at in decades", Rule{Spec: "@at 2099-01-01T09:00:00Z"}, "2026-01-01T09:00:00Z", "2099-01-01T09:00:00Z"},
		{"@every from its creation", Rule{Spec: "@every 90s", Created: start}, "2026-01-01T12:00:00Z", "2026-01-01T12:01:30Z 2026-01-01T12:03:00Z"},
		{"@every from its start", Rule{Spec: "@every 90s", Start: start}, "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z 2026-01-01T12:01:30Z"},
		{"@every keeps its phase", Rule{Spec: "@every 7h", Start: start}, "2026-06-01T00:00:00Z", "2026-06-01T07:00:00Z"},
		{"bounds are included", Rule{Spec: "0 * * * *", Start: start, End: start.Add(2 * time.Hour)}, "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z 2026-01-01T13:00:00Z 2026-01-01T14:00:00Z"},

		// In Berlin the clocks went from 2:00 to 3:00 on 29 March 2026, and from 3:00 to 2:00 on 25 October.
		{"2:30 in a gap", Rule{Spec: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"2:30 twice", Rule{Spec: "30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		{"30 2,3 in a gap", Rule{Spec: "30 2,3 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-29T01:30:00Z 2026-03-30T00:30:00Z"},
		{"two skipped times fire together", Rule{Spec: "10,50 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:10:00Z"},
		{"a skipped time and one after the gap", Rule{Spec: "0 2,3 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z"},
		{"wild goes by instants", Rule{Spec: "*/30 2 * * *", Zone: "Europe/Berlin"}, "2026-10-24T12:00:00Z", "2026-10-25T00:00:00Z 2026-10-25T00:30:00Z 2026-10-25T01:00:00Z 2026-10-25T01:30:00Z 2026-10-26T01:00:00Z"},
		{"wild by another word", Rule{Spec: "4 ? * * *", Zone: "Europe/Berlin"}, "2027-10-30T23:30:00Z", "2027-10-31T00:04:00Z 2027-10-31T01:04:00Z 2027-10-31T02:04:00Z"},
		{"wild in a gap", Rule{Spec: "*/30 2 * * *", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-30T00:00:00Z"},
		{"hourly twice", Rule{Spec: "@hourly", Zone: "Europe/Berlin"}, "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"},
		{"midnight in a gap", Rule{Spec: "@daily", Zone: "Asia/Beirut"}, "2026-03-28T12:00:00Z", "2026-03-28T22:00:00Z 2026-03-29T21:00:00Z"},
		{"a day that does not exist", Rule{Spec: "0 12 * * *", Zone: "Pacific/Apia"}, "2011-12-29T20:00:00Z", "2011-12-29T22:00:00Z 2011-12-30T22:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := strings.Fields(test.want)
			if got := times(t, test.rule, test.after, max(1, len(want))); !slices.Equal(got, want) {
				t.Errorf("times are %v, expected %v", got, want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		rule Rule
		says string
	}{
		{Rule{Spec: ""}, "0 fields"},
		{Rule{Spec: "* * * *"}, "4 fields"},
		{Rule{Spec: "* * * * * * *"}, "7 fields"},
		{Rule{Spec: "TZ=Europe/Berlin * * * * *"}, `zone "Europe/Berlin" in zone`},
		{Rule{Spec: "CRON_TZ=UTC 0 0 * * *"}, `zone "UTC" in zone`},
		{Rule{Spec: "60 * * * *"}, "0 to 59"},
		{Rule{Spec: "* 24 * * *"}, "0 to 23"},
		{Rule{Spec: "* * 0 * *"}, "1 to 31"},
		{Rule{Spec: "* * * 13 *"}, "jan to dec"},
		{Rule{Spec: "* * * * 8"}, "0 to 7"},
		{Rule{Spec: "* * * * fri-mon"}, "ends before it begins"},
		{Rule{Spec: "*/0 * * * *"}, "a step of 1 to 59"},
		{Rule{Spec: "*/60 * * * *"}, "a step of 1 to 59"},
		{Rule{Spec: "* * * * */7"}, "a step of 1 to 6"},
		{Rule{Spec: "* * * */13 *"}, "a step of 1 to 12"},
		{Rule{Spec: "* * */32 * *"}, "a step of 1 to 31"},
		{Rule{Spec: "* */24 * * *"}, "a step of 1 to 23"},
		{Rule{Spec: "5, * * * *"}, "0 to 59"},
		{Rule{Spec: "+5 * * * *"}, "0 to 59"},
		{Rule{Spec: "* * L * *"}, "1 to 31"},
		{Rule{Spec: "* * * * 5#2"}, "0 to 7"},
		{Rule{Spec: "@fortnightly"}, "@weekly"},
		{Rule{Spec: "@daily 5"}, "@weekly"},
		{Rule{Spec: "@every 999ms"}, "1s"},
		{Rule{Spec: "@every soon"}, "@every 90s"},
		{Rule{Spec: "@every 80000h"}, "allowed"},
		{Rule{Spec: "@at noon"}, "2027"},
		{Rule{Spec: "@at 2300-01-01T00:00:00Z"}, "2199"},
		{Rule{Spec: "@every 1m", Zone: "Europe/Berlin"}, "zone"},
		{Rule{Spec: "@daily", Zone: "Local"}, "Europe/Berlin"},
		{Rule{Spec: "@daily", Zone: "+01:00"}, "Europe/Berlin"},
		{Rule{Spec: "@daily", Zone: "europe/berlin"}, "Europe/Berlin"},
		{Rule{Spec: "@daily", Zone: "../Europe/Berlin"}, "Europe/Berlin"},
		{Rule{Spec: "@daily", Zone: "Europe/"}, "Europe/Berlin"},
		{Rule{Spec: "@daily", Start: day, End: day.Add(-1)}, "before start"},
		{Rule{Spec: "0 0 1 1 1" + strings.Repeat(",1", 200)}, "allowed are 256"},
	} {
		_, err := New(test.rule)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: error %v, expected one that says %q", test.rule, err, test.says)
		}
	}
}

func TestNoTime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, rule := range []Rule{
		{Spec: "0 0 30 2 *"},
		{Spec: "0 0 31 4,6,9,11 *"},
		{Spec: "@daily", End: now},
		{Spec: "@at 2026-02-01T00:00:00Z", End: now},
		{Spec: "@at 2026-02-01T00:00:00Z", Start: now.AddDate(1, 0, 0)},
	} {
		c, err := New(rule)
		if err != nil {
			t.Fatal(err)
		}
		if next, ok := c.Next(now); ok {
			t.Errorf("%+v has the time %s", rule, next)
		}
	}
}

// TestCount compares the arithmetic of @every with a walk.
func TestCount(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		c, err := New(Rule{Spec: "@every " + time.Duration(1e9+r.IntN(1e11)).String(), Start: start, End: start.Add(time.Duration(r.IntN(1e13)))})
		if err != nil {
			t.Fatal(err)
		}
		from := start.Add(time.Duration(r.IntN(1e13)) - 5*time.Second)
		to := from.Add(time.Duration(r.IntN(1e12)))
		want := 0
		for next, ok := c.Next(from.Add(-1)); ok && !next.After(to); next, ok = c.Next(next) {
			want++
		}
		if got := c.Count(from, to, 50); got != min(want, 50) {
			t.Fatalf("%d times, expected %d", got, min(want, 50))
		}
	}
	c, err := New(Rule{Spec: "* * * * * *"})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Count(start, start.Add(time.Hour), 10_000); n != 3601 {
		t.Errorf("%d seconds of an hour, expected 3601", n)
	}
}

// TestHostZonesDoNotCount has another Berlin where package time would look for it first.
func TestHostZonesDoNotCount(t *testing.T) {
	utc, err := Zone("Etc/GMT+12")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "Europe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Europe", "Vienna"), zoneFile(t, "Etc/GMT+12"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONEINFO", dir)
	if _, err := time.LoadLocation(utc.String()); err != nil {
		t.Logf("package time has no zones here: %v", err)
	}
	if got := times(t, Rule{Spec: "0 12 1 1 *", Zone: "Europe/Vienna"}, "2026-01-01T00:00:00Z", 1); !slices.Equal(got, []string{"2026-01-01T11:00:00Z"}) {
		t.Errorf("noon in Vienna is %v", got)
	}
}

func zoneFile(t *testing.T, name string) []byte {
	t.Helper()
	if _, err := Zone(name); err != nil {
		t.Fatal(err)
	}
	zones.Lock()
	defer zones.Unlock()
	data, err := content(zones.files[name])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestZoneDataIsOfItsVersion compares the archive with the archive of the toolchain, if that is
// of the same version.
func TestZoneDataIsOfItsVersion(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("no toolchain: %v", err)
	}
	lib := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	script, err := os.ReadFile(filepath.Join(lib, "update.bash"))
	if err != nil || !bytes.Contains(script, []byte("DATA="+ZoneData+"\n")) {
		t.Skipf("the toolchain has other zones than %s, or none", ZoneData)
	}
	theirs, err := os.ReadFile(filepath.Join(lib, "zoneinfo.zip"))
	if err != nil {
		t.Skip(err)
	}
	if string(theirs) != archive {
		t.Errorf("the archive is not that of version %s", ZoneData)
	}
}

func FuzzNew(f *testing.F) {
	for _, seed := range []string{"30 2 * * *", "*/5 0-4,7 1/3 ? jan-mar fri,7", "@every 90s", "@at 2026-01-01T00:00:00Z", "@daily", "0 0 30 2 *", "0 0 29 2 *"} {
		f.Add(seed, "Europe/Berlin", int64(1_774_745_999))
		f.Add(seed, "", int64(1_792_888_200))
	}
	f.Fuzz(func(t *testing.T, spec, zone string, at int64) {
		from := time.Unix(946_684_800+int64(uint64(at)%3_000_000_000), 0)
		c, err := New(Rule{Spec: spec, Zone: zone, Created: from})
		if err != nil {
			return
		}
		next, ok := c.Next(from)
		if !ok {
			return
		}
		if !next.After(from) {
			t.Fatalf("%q in %q: the time after %s is %s", spec, zone, from, next)
		}
		if again, ok := c.Next(next.Add(-1)); !ok || !again.Equal(next) {
			t.Fatalf("%q in %q: the time after %s is %s, expected %s", spec, zone, next.Add(-1), again, next)
		}
		if last, ok := c.Last(next.Add(1)); !ok || !last.Equal(next) {
			t.Fatalf("%q in %q: the time before %s is %s (%t), expected %s", spec, zone, next.Add(1), last, ok, next)
		}
		if last, ok := c.Last(next); ok && last.After(from) {
			t.Fatalf("%q in %q: %s is between %s and the next time %s", spec, zone, last, from, next)
		}
	})
}
