package topologies_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

const tenantsPage = "../../docs/tenants.md"

// quotas writes a file for PQ_TENANTS.
func quotas(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tenants.json")
	pqd.Write(t, path, text)
	return path
}

// freeTenants is the page's file without what its users may do in their accounts: accounts alone keep tenants apart.
func freeTenants(t *testing.T) (path string) {
	t.Helper()
	path = fileOf(t, tenantsPage, "tenants.conf")
	text := pqd.Read(t, path)
	limits := regexp.MustCompile(`\{allow: \[.*\], (deny: "pq.\*.\*.event.\*")\}, subscribe: \[.*\]`)
	if len(limits.FindAllString(text, -1)) != 2 {
		t.Fatalf("expected two tenants with permissions in\n%s", text)
	}
	pqd.Write(t, path, limits.ReplaceAllString(text, "{$1}"))
	return path
}

// Accounts of a configuration are tenants: each runs the table of cases through its import, and has no effect on another one's queues.
func TestTenantAccounts(t *testing.T) {
	t.Parallel()
	file := quotas(t, "{}")
	p := with(t, freeTenants(t), "PQ_TENANTS="+file, "PQ_CONSOLE=read")
	accounts := make(map[string]*nats.Conn)
	for _, name := range []string{"acme", "sales"} {
		accounts[strings.ToUpper(name)] = p.Connect(t, nats.UserInfo(name, passwords[strings.ToUpper(name)+"_PASSWORD"]))
	}
	acme, sales := accounts["ACME"], accounts["SALES"]
	cases.Run(t, cases.File, "go", "pq.ACME", "c", acme, &cases.Go{NC: acme})
	t.Run("apart", func(t *testing.T) { tenantsAreApart(t, accounts, "ACME", "SALES") })
	t.Run("shown", func(t *testing.T) { tenantsAreShown(t, p, accounts) })

	// The file is read again at SIGHUP; a wrong one changes nothing.
	pqd.Write(t, file, `{"tenants":{"SALES":{"items":1}}}`)
	p.HangUp(t)
	full := func(nc *nats.Conn, tenant string) bool {
		var reason string
		testenv.Await(t, "pqd answers", func() bool { // while a server reads its accounts again, it has no responders, or nobody answers
			m, err := nc.Request("pq."+tenant+".quota.push", []byte("x"), testenv.Attempt())
			if err != nil && !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrTimeout) {
				t.Fatal(err)
			}
			if err == nil {
				reason = m.Header.Get("PQ-Reason")
			}
			return err == nil
		})
		return reason == "quota_items"
	}
	testenv.Await(t, "the quota holds", func() bool { return full(sales, "SALES") })
	pqd.Write(t, file, `{"tenants":{"SALES":{"items":-1}}}`)
	p.HangUp(t)
	testenv.Await(t, "pqd has read it", func() bool { return strings.Contains(p.Log(), "negative") })
	if !full(sales, "SALES") || full(acme, "ACME") {
		t.Error("a wrong file changes the quotas")
	}
	for _, want := range []string{`pq_tenant_refused_total{reason="quota_items",tenant="SALES"}`, `pq_tenant_items{tenant="SALES"}`, `pq_tenant_requests_total{tenant="ACME"}`, `queue="ACME.quota"`} {
		if _, text := pqd.Get(t, p.HTTP+"/metrics"); !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	p.Stop(t)
}

// The server refuses an import of another account's queues, whatever it is called.
func TestTenantImportsOfOthers(t *testing.T) {
	t.Parallel()
	text := pqd.Read(t, fileOf(t, tenantsPage, "tenants.conf"))
	for name := range passwords {
		text = strings.ReplaceAll(text, "$"+name, "secret")
	}
	const own = `{service: {account: PQ, subject: "pq.SALES.>"}}`
	for subject, good := range map[string]bool{
		"pq.SALES.>": true, "pq.SALES.jobs.>": true, "pq.ACME.>": false, "pq.*.>": false, "pq.ACME.jobs.push": false, "pq.>": false, "pq._sys.list": false, "pq._sys.>": false,
	} {
		err := new(server.Options).ProcessConfigString(strings.Replace(text, own, strings.Replace(own, "pq.SALES.>", subject, 1), 1))
		if (err == nil) != good {
			t.Errorf("SALES imports %s: %v", subject, err)
		}
	}
}

// Accounts of an operator are tenants by their public keys: one export, and an import each.
func TestTenantsOfOperator(t *testing.T) {
	t.Parallel()
	o, ids, operatorFile := newOperator(t, "QUEUES", "ACME", "SALES")
	o.account("QUEUES", func(a *jwt.AccountClaims) {
		a.Exports.Add(
			&jwt.Export{Subject: "pq.*.>", Type: jwt.Service, ResponseType: jwt.ResponseTypeStream, AccountTokenPosition: 2},
			&jwt.Export{Subject: "pq.*.*.event.*", Type: jwt.Stream, AccountTokenPosition: 2})
	})
	for _, name := range []string{"ACME", "SALES"} {
		o.account(name, func(a *jwt.AccountClaims) {
			a.Imports.Add(
				&jwt.Import{Subject: jwt.Subject("pq." + ids[name] + ".>"), Account: ids["QUEUES"], Type: jwt.Service},
				&jwt.Import{Subject: jwt.Subject("pq." + ids[name] + ".*.event.*"), Account: ids["QUEUES"], Type: jwt.Stream})
		})
	}
	srv := natsServer(t, file(t, "operator.conf", "/etc/nats/operator.jwt", operatorFile, "$SYSTEM_ACCOUNT", ids["SYS"], "/var/lib/nats/jwt", o.dir))
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	rights := grammar.WithTenants().Bridge()
	p := testenv.Daemon(t, "NATS_URL="+srv.ClientURL(), "NATS_CREDS="+o.user("QUEUES", "pqd", &rights), "PQ_TENANTS="+quotas(t, "{}"))
	accounts := make(map[string]*nats.Conn)
	for _, name := range []string{"ACME", "SALES"} {
		nc, err := nats.Connect(srv.ClientURL(), nats.UserCredentials(o.user(name, "client", nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		accounts[ids[name]] = nc
	}
	acme := ids["ACME"]
	cases.Run(t, cases.File, "go", "pq."+acme, "c", accounts[acme], &cases.Go{NC: accounts[acme]})
	tenantsAreApart(t, accounts, acme, ids["SALES"])
	if strings.Contains(p.Log(), "may do more") {
		t.Error("pqd has more rights than it needs")
	}
	p.Stop(t)
}

// tenantsAreApart looks that a tenant reaches nothing of another one.
func tenantsAreApart(t *testing.T, accounts map[string]*nats.Conn, a, b string) {
	t.Helper()
	one, other := accounts[a], accounts[b]
	ask := func(nc *nats.Conn, subject, body string) string {
		t.Helper()
		m, err := nc.Request(subject, []byte(body), testenv.Patience())
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return string(m.Data)
	}
	events, err := other.SubscribeSync("pq.*.*.event.*")
	if err != nil {
		t.Fatal(err)
	}
	for tenant, nc := range accounts {
		ask(nc, "pq."+tenant+".jobs.push.3", "of "+tenant)
	}
	lease := nats.NewMsg("pq." + b + ".jobs.pop.min")
	lease.Header.Set("PQ-Lease", "1h")
	item, err := other.RequestMsg(lease, testenv.Patience())
	if err != nil || string(item.Data) != "of "+b {
		t.Fatalf("%v, %v", item, err)
	}
	ack := item.Header.Get("PQ-Ack")
	before := ask(other, "pq."+b+".jobs.info", "")
	// Each verb, as the other tenant's subject has it. Nobody is there for a subject without an import.
	grammar, err := subjects.New("pq." + b)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range append(slices.Collect(maps.Values(testenv.Requests(t, grammar, "jobs"))), ack) {
		if m, err := one.Request(subject, []byte("+ACK"), testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s of another tenant: %v, %v", subject, m, err)
		}
	}
	for _, subject := range []string{"pq._sys.list", "pq._sys.info", "pq._sys.cluster.status", "pq._sys.cluster.step-down", "pq." + b + "._sys.list", "pq.*.jobs.info", "$SRV.PING.pq", item.Reply} {
		if m, err := one.Request(subject, nil, testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("%s: %v, %v", subject, m, err)
		}
	}
	if after := ask(other, "pq."+b+".jobs.info", ""); fieldsOf(after) != fieldsOf(before) {
		t.Errorf("the other tenant's queue was %s and is %s", before, after)
	}
	if list := ask(one, "pq."+a+"._sys.list", `{"prefix":"jobs"}`); list != `{"queues":["jobs"]}` {
		t.Errorf("%s", list)
	}
	// The reply subject crosses the accounts back, and so does PQ-Ack: each settles its own lease.
	if err := other.Publish(item.Reply, []byte("+WPI")); err != nil {
		t.Fatal(err)
	}
	if m, err := other.Request(ack, []byte("+TERM odd"), testenv.Patience()); err != nil || m.Header.Get("Status") != "" {
		t.Errorf("%v, %v", m, err)
	}
	m, err := events.NextMsg(testenv.Patience())
	if err != nil || m.Subject != "pq."+b+".jobs.event.dead" {
		t.Errorf("the event: %v, %v", m, err)
	}
	if m, err := events.NextMsg(onItsWay()); err == nil {
		t.Errorf("another one: %s %s", m.Subject, m.Data)
	}
	if text := ask(one, "pq."+a+".jobs.pop.min", ""); text != "of "+a {
		t.Errorf("popped %q", text)
	}
}

// tenantsAreShown looks that a tenant sees its own queues with pq, and the operator those of all, by HTTP and in the metrics.
func tenantsAreShown(t *testing.T, p *testenv.Process, accounts map[string]*nats.Conn) {
	t.Helper()
	for tenant, nc := range accounts {
		if m, err := nc.Request("pq."+tenant+".only"+tenant+".push", []byte("x"), testenv.Patience()); err != nil || m.Header.Get("Nats-Service-Error") != "" {
			t.Fatalf("%v, %v", m, err)
		}
	}
	for tenant := range accounts {
		pq := func(args ...string) string {
			t.Helper()
			cmd := pqd.Command(t, testenv.Build(t, "cmd/pq"), append([]string{"--prefix", "pq." + tenant}, args...)...)
			cmd.Env = append(os.Environ(), "NATS_URL="+p.URL, "NATS_USER="+strings.ToLower(tenant), "NATS_PASSWORD="+passwords[tenant+"_PASSWORD"])
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("pq %q as %s: %v\n%s", args, tenant, err, out)
			}
			return string(out)
		}
		for _, text := range []string{pq("ls", "only"), pq("top", "--count", "1")} {
			for other := range accounts {
				if got, want := strings.Contains(text, "only"+other), other == tenant; got != want {
					t.Errorf("%s sees the queue of %s: %t\n%s", tenant, other, got, text)
				}
			}
		}
	}
	_, metrics := pqd.Get(t, p.HTTP+"/metrics")
	for tenant := range accounts {
		_, queues := pqd.Get(t, p.HTTP+"/v1/queues?prefix="+tenant)
		if name := tenant + ".only" + tenant; !strings.Contains(queues, name) || !strings.Contains(metrics, `queue="`+name+`"`) {
			t.Errorf("the operator does not see %s in %s, or in the metrics", name, queues)
		}
	}
}

// fieldsOf are the counts in an info.
func fieldsOf(info string) string {
	from, _, _ := strings.Cut(info, `"oldest"`)
	return from
}
