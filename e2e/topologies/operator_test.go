package topologies_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// operator makes JWTs as nsc does.
type operator struct {
	t        *testing.T
	dir      string // of the accounts
	key      nkeys.KeyPair
	accounts map[string]nkeys.KeyPair
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	key, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// account writes the JWT of an account.
func (o *operator) account(name string, change func(*jwt.AccountClaims)) {
	o.t.Helper()
	public, err := o.accounts[name].PublicKey()
	if err != nil {
		o.t.Fatal(err)
	}
	claims := jwt.NewAccountClaims(public)
	claims.Name = name
	change(claims)
	text, err := claims.Encode(o.key)
	if err != nil {
		o.t.Fatal(err)
	}
	pqd.Write(o.t, filepath.Join(o.dir, public+".jwt"), text)
}

// user writes the credentials of a user.
func (o *operator) user(account, name string, may *subjects.Permissions) (path string) {
	o.t.Helper()
	key, public := newKey(o.t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	if may != nil {
		claims.Pub.Allow.Add(may.Publish...)
		claims.Sub.Allow.Add(may.Subscribe...)
	}
	text, err := claims.Encode(o.accounts[account])
	if err != nil {
		o.t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		o.t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(text, seed)
	if err != nil {
		o.t.Fatal(err)
	}
	path = filepath.Join(o.t.TempDir(), name+".creds")
	pqd.Write(o.t, path, string(creds))
	return path
}

// newOperator makes an operator with accounts, and returns the file with its JWT. The account SYS is that of the system.
func newOperator(t *testing.T, names ...string) (o *operator, ids map[string]string, file string) {
	t.Helper()
	o = &operator{t: t, dir: filepath.Join(t.TempDir(), "jwt"), accounts: make(map[string]nkeys.KeyPair)}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ids = make(map[string]string)
	for _, name := range append(names, "SYS") {
		o.accounts[name], ids[name] = newKey(t, nkeys.CreateAccount)
	}
	var public string
	o.key, public = newKey(t, nkeys.CreateOperator)
	claims := jwt.NewOperatorClaims(public)
	claims.SystemAccount = ids["SYS"]
	text, err := claims.Encode(o.key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "operator.jwt")
	pqd.Write(t, file, text)
	o.account("SYS", func(*jwt.AccountClaims) {})
	return o, ids, file
}

// Two accounts of an operator, with exports from one to the other: each sees its own queues alone.
func TestOperator(t *testing.T) {
	t.Parallel()
	o, ids, operatorFile := newOperator(t, "QUEUES", "SALES")

	// The queues of the cases, beside that of the page.
	exported := []string{"pq.sales.>", "pq.sales-dead.>"}
	for i := range cases.Read(t, cases.File) {
		exported = append(exported, fmt.Sprintf("pq.c%d.>", i), fmt.Sprintf("pq.c%d-dead.>", i))
	}
	o.account("QUEUES", func(a *jwt.AccountClaims) {
		for _, subject := range exported {
			a.Exports.Add(&jwt.Export{Subject: jwt.Subject(subject), Type: jwt.Service, ResponseType: jwt.ResponseTypeStream})
		}
	})
	o.account("SALES", func(a *jwt.AccountClaims) {
		for _, subject := range exported {
			a.Imports.Add(&jwt.Import{Subject: jwt.Subject(subject), Account: ids["QUEUES"], Type: jwt.Service})
		}
	})
	srv := natsServer(t, file(t, "operator.conf", "/etc/nats/operator.jwt", operatorFile, "$SYSTEM_ACCOUNT", ids["SYS"], "/var/lib/nats/jwt", o.dir))

	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	rights := grammar.Bridge()
	link := testenv.NewProxy(t, srv.ClientURL())
	p := testenv.Daemon(t, "NATS_URL="+link.URL(), "NATS_CREDS="+o.user("QUEUES", "pqd", &rights))
	connect := func(account string) *nats.Conn {
		nc, err := nats.Connect(srv.ClientURL(), nats.UserCredentials(o.user(account, "client", nil)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	queues, sales := connect("QUEUES"), connect("SALES")
	cases.Run(t, cases.File, "go", "pq", "c", sales, &cases.Go{NC: sales})

	pqd.Push(t, queues, "own", 1, "of the account of pqd")
	pqd.Push(t, sales, "sales", 1, "of the other account")
	for _, subject := range []string{"pq.own.pop.min", "pq.own.info", "pq._sys.list", "$SRV.PING.pq"} {
		if m, err := sales.Request(subject, nil, testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("the other account asks %s: %v, %v, expected no responders", subject, m, err)
		}
	}
	if got := pqd.Pop(t, sales, "sales", "min"); got != "of the other account" {
		t.Errorf("popped %q", got)
	}
	if got := pqd.Pop(t, queues, "own", "min"); got != "of the account of pqd" {
		t.Errorf("popped %q", got)
	}

	link.Block(true)
	testenv.Await(t, "nobody serves", func() bool {
		_, err := sales.Request("pq.sales.info", nil, onItsWay())
		return errors.Is(err, nats.ErrNoResponders)
	})
	link.Block(false)
	joinedBy(t, sales, "pq.sales.info")
	repeatedly(t, sales, "pq", "sales", link)
	p.Stop(t)
}
