package subjects_test

import (
	"strings"
	"testing"

	. "github.com/pqbridge/pqbridge/subjects"
)

// A grammar with a site knows every subject under both prefixes, and builds what it parses.
func TestSite(t *testing.T) {
	g, err := grammar(t, "a.pq").AtSite("hub")
	if err != nil {
		t.Fatal(err)
	}
	plain, remote := g.Each()[0], g.Each()[1]
	if plain.Prefix() != "a.pq" || remote.Prefix() != "hub.a.pq" || g.Prefix() != "a.pq" {
		t.Errorf("the prefixes are %s and %s, and %s of both", plain.Prefix(), remote.Prefix(), g.Prefix())
	}
	for text, want := range wellFormed {
		for prefix, atSite := range map[string]bool{"a.pq.": false, "hub.a.pq.": true} {
			want.AtSite = atSite
			got, err := g.Parse(prefix + text)
			if err != nil || got != want {
				t.Errorf("parse %q: %+v, %v", prefix+text, got, err)
				continue
			}
			if back, err := g.Build(got); err != nil || back != prefix+text {
				t.Errorf("build %+v: %q, %v, expected %q", got, back, err, prefix+text)
			}
			if of := g.Of(got); of.Prefix()+"." != prefix {
				t.Errorf("the prefix of %q is %q", prefix+text, of.Prefix())
			}
			if rest := g.Rest(prefix + text); rest != text {
				t.Errorf("behind the prefix of %q is %q", prefix+text, rest)
			}
		}
		if _, err := plain.Parse("hub.a.pq." + text); err == nil {
			t.Errorf("hub.a.pq.%s parses without the site", text)
		}
		want.AtSite = true
		if built, err := plain.Build(want); err == nil {
			t.Errorf("without a site %q was built", built)
		}
	}
	for _, text := range []string{"hub.pq.jobs.push", "hub.a.jobs.push", "pq.jobs.push", "other.a.pq.jobs.push", "hub.a.pq"} {
		if s, err := g.Parse(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	for text, want := range map[string]bool{"hub.a.pq._sys.event.active": true, "a.pq._sys.event.active": true, "pq._sys.event.active": false} {
		if got := g.IsSystemEvent(text); got != want {
			t.Errorf("%q is an event of the system: %t", text, got)
		}
	}
}

func TestSiteNames(t *testing.T) {
	for _, tc := range []struct {
		prefix, site string
		good         bool
	}{
		{"pq", "hub", true}, {"a.pq", "a", true}, {"pq", "Edge-7_b", true},
		{"pq", "", false}, {"pq", "a.b", false}, {"pq", "*", false}, {"pq", "_hub", false}, {"pq", "h b", false},
		{"pq", "pq", false}, {"pq.pq", "pq", false}, {"pq", strings.Repeat("x", MaxPrefix), false},
	} {
		g, err := grammar(t, tc.prefix).AtSite(tc.site)
		if (err == nil) != tc.good {
			t.Errorf("the site %q of %s: %v", tc.site, tc.prefix, err)
		}
		if err == nil && g.Each()[1].Prefix() != tc.site+"."+tc.prefix {
			t.Errorf("the site %q of %s is at %s", tc.site, tc.prefix, g.Each()[1].Prefix())
		}
	}
}

// A bridge needs the rights to both prefixes.
func TestSitePermissions(t *testing.T) {
	g, err := grammar(t, "pq").AtSite("hub")
	if err != nil {
		t.Fatal(err)
	}
	p := g.Bridge()
	for _, prefix := range []string{"pq", "hub.pq"} {
		if !allowed(p.Subscribe, prefix+".jobs.push") || !allowed(p.Publish, prefix+".jobs.event.dead") || allowed(p.Publish, prefix+".jobs.push") {
			t.Errorf("the rights of the bridge under %s: %+v", prefix, p)
		}
	}
}
