package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// globals are the flags that all commands have.
type globals struct {
	context string // of the nats command, by name or as a file
	login   login
	prefix  string
	timeout time.Duration
	limited bool // the timeout was asked for on the command line
	json    bool
}

// login is how to get to a NATS server. What is empty is taken from the context,
// if there is one.
type login struct {
	Server      string `json:"url"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	InboxPrefix string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`
	UserJWT     string `json:"user_jwt"`
	UserSeed    string `json:"user_seed"`
}

const defaultTimeout = 5 * time.Second

// globalsFrom reads the variables that the nats command knows, and PQ_PREFIX.
func globalsFrom(env map[string]string) (globals, error) {
	g := globals{
		context: env["NATS_CONTEXT"],
		prefix:  cmp.Or(env["PQ_PREFIX"], client.DefaultPrefix),
		timeout: defaultTimeout,
		login: login{
			Server: env["NATS_URL"], User: env["NATS_USER"], Password: env["NATS_PASSWORD"], Token: env["NATS_TOKEN"],
			Creds: env["NATS_CREDS"], NKey: env["NATS_NKEY"],
			Cert: env["NATS_CERT"], Key: env["NATS_KEY"], CA: env["NATS_CA"],
			InboxPrefix: env["NATS_INBOX_PREFIX"],
		},
	}
	if text := env["NATS_TIMEOUT"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return g, usagef("NATS_TIMEOUT=%q: expected a duration such as 5s", text)
		}
		g.timeout = d
	}
	return g, nil
}

// define makes the flags; what is set so far are their defaults, which must not
// show secrets.
func (g *globals) define(f *flags) {
	l := &g.login
	for _, t := range []struct {
		to           *string
		names, usage string
	}{
		{&l.Server, "server,s", "NATS server `URL`s, separated by commas [NATS_URL]"},
		{&g.context, "context", "context of the nats command, by `name` [NATS_CONTEXT]"},
		{&l.Creds, "creds", "credentials `file` [NATS_CREDS]"},
		{&l.NKey, "nkey", "`file` with an NKey seed [NATS_NKEY]"},
		{&l.User, "user", "user `name`, or a token if there is no password [NATS_USER]"},
		{&l.Password, "password", "`password` of the user [NATS_PASSWORD]"},
		{&l.Token, "token", "`token` to log in with [NATS_TOKEN]"},
		{&l.Cert, "tlscert", "client certificate `file` [NATS_CERT]"},
		{&l.Key, "tlskey", "private key `file` of the certificate [NATS_KEY]"},
		{&l.CA, "tlsca", "`file` with certificate authorities to trust [NATS_CA]"},
		{&l.InboxPrefix, "inbox-prefix", "`subject` that answers are received on [NATS_INBOX_PREFIX]"},
		{&g.prefix, "prefix", "what the bridge's `subject`s begin with [PQ_PREFIX]"},
	} {
		f.text(t.to, t.names, t.usage)
		if t.to != &g.prefix {
			f.set.Lookup(f.names(t.names)).DefValue = ""
		}
	}
	f.yes(&l.TLSFirst, "tlsfirst", "TLS handshake before the server's greeting")
	f.value(&timeoutFlag{g}, "timeout", "`duration` to wait for an answer [NATS_TIMEOUT]")
	f.yes(&g.json, "json", "machine-readable output: a JSON object a line")
}

// timeoutFlag is the flag --timeout.
type timeoutFlag struct{ globals *globals }

func (l *timeoutFlag) String() string {
	if l.globals == nil {
		return "" // asked by the package flag, of a zero value
	}
	return l.globals.timeout.String()
}

func (l *timeoutFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("expected a duration such as 30s or 1h30m")
	}
	l.globals.timeout, l.globals.limited = d, true
	return nil
}
