package settings_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// login is a way to log in to NATS: the server's configuration, and the credentials of
// pqd and of other clients.
type login struct {
	server func(*server.Options)
	env    []string
	client nats.Option
	wrong  []string // what pqd is refused with
}

// pqd logs in with every kind of credentials, and ends with an error about the login if
// they are wrong.
func TestLogins(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T) login{
		"user": userLogin, "token": tokenLogin, "nkey": nkeyLogin, "credentials": credentialsLogin, "certificate": certificateLogin,
	} {
		t.Run(name, func(t *testing.T) {
			l := prepare(t)
			srv := testenv.NATS(t, l.server)
			if nc, err := nats.Connect(srv.URL(), nats.Secure(&tls.Config{InsecureSkipVerify: true})); err == nil {
				nc.Close()
				t.Fatal("the server lets everybody in")
			}
			p := testenv.Daemon(t, append(l.env, "NATS_URL="+srv.URL())...)
			nc := srv.Connect(t, l.client)
			pqd.Push(t, nc, "jobs", 1, "x")
			if body := pqd.Pop(t, nc, "jobs", "min"); body != "x" {
				t.Errorf("popped %q, expected x", body)
			}
			p.Stop(t)

			code, _, stderr := testenv.Run(t, append(l.wrong, "NATS_URL="+srv.URL(), "PQ_HTTP=127.0.0.1:0"))
			if code != 1 || !strings.Contains(stderr, "NATS_") {
				t.Errorf("exit code %d, expected 1 and a word about logins: %s", code, stderr)
			}
		})
	}
}

// userLogin has the documented permissions of the bridge.
func userLogin(t *testing.T) login {
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	needs := grammar.Bridge()
	return login{
		server: func(o *server.Options) {
			o.Users = []*server.User{
				{Username: "app", Password: "other"},
				{Username: "pqd", Password: "secret", Permissions: &server.Permissions{
					Publish:   &server.SubjectPermission{Allow: needs.Publish},
					Subscribe: &server.SubjectPermission{Allow: needs.Subscribe},
				}},
			}
		},
		env:    []string{"NATS_USER=pqd", "NATS_PASSWORD=secret"},
		client: nats.UserInfo("app", "other"),
		wrong:  []string{"NATS_USER=pqd", "NATS_PASSWORD=other"},
	}
}

func tokenLogin(*testing.T) login {
	return login{
		server: func(o *server.Options) { o.Authorization = "secret" },
		env:    []string{"NATS_TOKEN=secret"},
		client: nats.Token("secret"),
		wrong:  []string{"NATS_TOKEN=other"},
	}
}

func nkeyLogin(t *testing.T) login {
	file, stranger := filepath.Join(t.TempDir(), "pqd.nk"), filepath.Join(t.TempDir(), "stranger.nk")
	key := newKey(t, nkeys.CreateUser)
	pqd.Write(t, file, key.seed)
	pqd.Write(t, stranger, newKey(t, nkeys.CreateUser).seed)
	option, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		t.Fatal(err)
	}
	return login{
		server: func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: key.public}} },
		env:    []string{"NATS_NKEY=" + file},
		client: option,
		wrong:  []string{"NATS_NKEY=" + stranger},
	}
}

// credentialsLogin is a server in operator mode with one account.
func credentialsLogin(t *testing.T) login {
	operator, account := newKey(t, nkeys.CreateOperator), newKey(t, nkeys.CreateAccount)
	trusted := jwt.NewOperatorClaims(operator.public)
	accounts := &server.MemAccResolver{}
	claims := jwt.NewAccountClaims(account.public)
	token, err := claims.Encode(operator.pair)
	if err == nil {
		err = accounts.Store(account.public, token)
	}
	if err != nil {
		t.Fatal(err)
	}
	credentials := func(name string, signer key) string {
		user := newKey(t, nkeys.CreateUser)
		claims := jwt.NewUserClaims(user.public)
		claims.Name = name
		token, err := claims.Encode(signer.pair)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(token, []byte(user.seed))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".creds")
		pqd.Write(t, file, string(text))
		return file
	}
	file := credentials("pqd", account)
	return login{
		server: func(o *server.Options) {
			o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{trusted}, accounts
		},
		env:    []string{"NATS_CREDS=" + file},
		client: nats.UserCredentials(file),
		wrong:  []string{"NATS_CREDS=" + credentials("stranger", newKey(t, nkeys.CreateAccount))},
	}
}

// certificateLogin is TLS with a certificate on either side.
func certificateLogin(t *testing.T) login {
	cert, private := pqd.Certificate(t, t.TempDir())
	pair, err := tls.LoadX509KeyPair(cert, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return login{
		server: func(o *server.Options) {
			o.TLS, o.TLSVerify = true, true
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
		},
		env: []string{"NATS_CA=" + cert, "NATS_CERT=" + cert, "NATS_KEY=" + private},
		client: func(o *nats.Options) error {
			if err := nats.RootCAs(cert)(o); err != nil {
				return err
			}
			return nats.ClientCert(cert, private)(o)
		},
		wrong: []string{"NATS_CA=" + cert},
	}
}

// key is an NKey with its two texts.
type key struct {
	pair         nkeys.KeyPair
	public, seed string
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) key {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return key{pair, public, string(seed)}
}
