package session

import (
	"cmp"
	"time"

	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
)

// globals are the flags that all commands have.
type globals struct {
	context string // of the nats command, by name or as a file
	login   login
	Prefix  string
	Timeout time.Duration
	JSON    bool

	timeoutFlag *pflag.Flag
}

const defaultTimeout = 5 * time.Second

// GlobalsFrom reads the variables of the nats command, and PQ_PREFIX.
func GlobalsFrom(env map[string]string) (globals, error) {
	g := globals{
		context: env["NATS_CONTEXT"],
		Prefix:  cmp.Or(env["PQ_PREFIX"], client.DefaultPrefix),
		Timeout: defaultTimeout,
		login: login{
			Server: env["NATS_URL"], User: env["NATS_USER"], Password: env["NATS_PASSWORD"], Token: env["NATS_TOKEN"],
			Creds: env["NATS_CREDS"], NKey: env["NATS_NKEY"],
			Cert: env["NATS_CERT"], Key: env["NATS_KEY"], CA: env["NATS_CA"],
			InboxPrefix: env["NATS_INBOX_PREFIX"],
		},
	}
	if text := env["NATS_TIMEOUT"]; text != "" {
		d, err := ParseDuration(text)
		if err != nil || d == 0 {
			return g, Usagef("NATS_TIMEOUT=%q: expected a duration such as 5s", text)
		}
		g.Timeout = d
	}
	return g, nil
}

// Define makes the flags; what is set so far are their defaults, which must not
// show secrets.
func (g *globals) Define(f *pflag.FlagSet) {
	l := &g.login
	f.StringVarP(&l.Server, "server", "s", l.Server, "NATS server `URL`s, separated by commas [NATS_URL]")
	f.StringVar(&g.context, "context", g.context, "context of the nats command, by `name` [NATS_CONTEXT]")
	f.StringVar(&l.Creds, "creds", l.Creds, "credentials `file` [NATS_CREDS]")
	f.StringVar(&l.NKey, "nkey", l.NKey, "`file` with an NKey seed [NATS_NKEY]")
	f.StringVar(&l.User, "user", l.User, "user `name`, or a token if there is no password [NATS_USER]")
	f.StringVar(&l.Password, "password", l.Password, "`password` of the user [NATS_PASSWORD]")
	f.StringVar(&l.Token, "token", l.Token, "`token` to log in with [NATS_TOKEN]")
	f.StringVar(&l.Cert, "tlscert", l.Cert, "client certificate `file` [NATS_CERT]")
	f.StringVar(&l.Key, "tlskey", l.Key, "private key `file` of the certificate [NATS_KEY]")
	f.StringVar(&l.CA, "tlsca", l.CA, "`file` with certificate authorities to trust [NATS_CA]")
	f.StringVar(&l.InboxPrefix, "inbox-prefix", l.InboxPrefix, "`subject` that answers are received on [NATS_INBOX_PREFIX]")
	f.VisitAll(func(flag *pflag.Flag) { flag.DefValue = "" })
	f.BoolVar(&l.TLSFirst, "tlsfirst", l.TLSFirst, "TLS handshake before the server's greeting")
	f.StringVar(&g.Prefix, "prefix", g.Prefix, "first tokens of the bridge's `subject`s [PQ_PREFIX]")
	DurationVar(f, &g.Timeout, "timeout", "", "`duration` to wait for an answer [NATS_TIMEOUT]")
	f.BoolVar(&g.JSON, "json", g.JSON, "print a JSON object a line")
	f.BoolP("help", "h", false, "show the help of a command")
	g.timeoutFlag = f.Lookup("timeout")
}

// limited reports whether the command line has a timeout.
func (g *globals) limited() bool { return g.timeoutFlag != nil && g.timeoutFlag.Changed }
