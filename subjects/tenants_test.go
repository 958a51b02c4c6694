package subjects_test

import (
	"slices"
	"testing"

	. "github.com/pqbridge/pqbridge/subjects"
)

// A grammar with tenants knows every subject behind the name of a tenant, and the subjects of the system also without a tenant.
func TestTenants(t *testing.T) {
	site, err := grammar(t, "pq").AtSite("hub")
	if err != nil {
		t.Fatal(err)
	}
	g := site.WithTenants()
	for text, want := range wellFormed {
		system := want.Verb >= SysList
		if want.Queue != "" {
			want.Queue = "acme." + want.Queue
		}
		for prefix, tenant := range map[string]string{"pq.acme.": "acme", "hub.pq.acme.": "acme", "pq.": ""} {
			if want.AtSite, want.Tenant = prefix == "hub.pq.acme.", ""; system {
				want.Tenant = tenant
			}
			got, err := g.Parse(prefix + text)
			if good := tenant != "" && want.Verb < SysClusterStatus || tenant == "" && system; !good {
				if err == nil && got == want {
					t.Errorf("%s%s is %+v", prefix, text, got)
				}
				continue
			}
			if err != nil || got != want {
				t.Errorf("parse %s%s: %+v, %v", prefix, text, got, err)
			}
			if back, err := g.Build(want); err != nil || back != prefix+text {
				t.Errorf("build %+v: %s, %v", want, back, err)
			}
			if want.Queue != "" {
				if queue, _ := g.Split(prefix + text); queue != want.Queue {
					t.Errorf("the queue of %s%s is %q", prefix, text, queue)
				}
			}
			if covered := Covers(g.Of(got).Acks(), prefix+text); covered != (want.Verb == Ack) {
				t.Errorf("%s covers %s%s: %t", g.Acks(), prefix, text, covered)
			}
		}
	}
	for _, text := range []string{
		"pq.acme", "pq.acme.", "pq..jobs.push", "pq.acme..push", "pq._sys.jobs.push", "pq._acme.jobs.push", "pq.acme._sys", "pq.acme._sys.cluster.status", "pq.a b.jobs.push",
		"pq.acme.jobs", "pq.a.b.jobs.push", "pq.*.jobs.push", "pq.acme.*.push", "pq.jobs.push", "pq._sys._sys.list", "pq._sys.acme.list", "pq.acme.acme._sys.list",
	} {
		if s, err := g.Parse(text); err == nil {
			t.Errorf("%s is %+v", text, s)
		}
		g.Split(text)
	}
	for _, s := range []Subject{{Queue: "jobs", Verb: Push}, {Queue: "a.b.jobs", Verb: Push}, {Queue: "_a.jobs", Verb: Push},
		{Queue: "a.jobs", Tenant: "a", Verb: Push}, {Tenant: "a.b", Verb: SysList}, {Tenant: "a", Verb: SysClusterStatus}} {
		if text, err := g.Build(s); err == nil {
			t.Errorf("%+v is %s", s, text)
		}
	}
	if text, err := site.Build(Subject{Tenant: "a", Verb: SysList}); err == nil {
		t.Errorf("without tenants %s was built", text)
	}
}

func TestNamesOfTenants(t *testing.T) {
	for queue, want := range map[string][3]string{"jobs": {"", "jobs", "other"}, "acme.jobs": {"acme", "jobs", "acme.other"}, "": {"", "", "other"}} {
		if got := [3]string{Tenant(queue), Own(queue), Beside(queue, "other")}; got != want {
			t.Errorf("%q: %q", queue, got)
		}
	}
	for name, good := range map[string]bool{name64: true, name64 + "x": false, "": false, "a.b": false, "_a": false, "a*": false, ">": false} {
		if err := CheckTenant(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A bridge may publish the events of all tenants and of the system, and nothing else of theirs.
func TestPermissionsWithTenants(t *testing.T) {
	g := grammar(t, "pq").WithTenants()
	may := g.Bridge().Publish
	for subject, want := range map[string]bool{"pq.a.jobs.event.dead": true, "pq._sys.event.active": true, "pq.a.jobs.push": false, "pq.a.event.x": false} {
		if got := allowed(may, subject); got != want {
			t.Errorf("the bridge publishes %s: %t", subject, got)
		}
	}
	of, err := g.Producer("a.jobs")
	if err != nil || !slices.Equal(of.Publish, []string{"pq.a.jobs.push", "pq.a.jobs.push.*"}) {
		t.Errorf("%v, %v", of, err)
	}
	all, err := g.Viewer("*")
	if err != nil || !allowed(all.Publish, "pq.a.jobs.info") || !allowed(all.Publish, "pq._sys.list") || !allowed(all.Subscribe, "pq.a.jobs.event.dead") {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := g.Producer("jobs"); err == nil {
		t.Error("a queue without a tenant has producers")
	}
}
