package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/net/proxy"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// login is how to connect to a NATS server. A context fills in empty fields.
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
	SOCKSProxy  string `json:"socks_proxy"`
}

// or fills in empty fields of l from other. It takes the credentials as a whole: parts of two
// do not fit.
func (l login) or(other login) login {
	if l.User+l.Token+l.Creds+l.NKey != "" {
		other.User, other.Password, other.Token, other.Creds, other.NKey = "", "", "", "", ""
		other.UserJWT, other.UserSeed = "", ""
	}
	merged, rest := reflect.ValueOf(&l).Elem(), reflect.ValueOf(other)
	for i := range merged.NumField() {
		if merged.Field(i).IsZero() {
			merged.Field(i).Set(rest.Field(i))
		}
	}
	return l
}

// options are the connection options.
func (l login) options() ([]nats.Option, error) {
	var options []nats.Option
	switch {
	case l.Creds != "":
		options = append(options, nats.UserCredentials(l.Creds))
	case l.NKey != "":
		option, err := nats.NkeyOptionFromSeed(l.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey %s: expected a file with an NKey seed: %w", l.NKey, err)
		}
		options = append(options, option)
	case l.UserJWT != "":
		options = append(options, nats.UserJWTAndSeed(l.UserJWT, l.UserSeed))
	case l.Token != "":
		options = append(options, nats.Token(l.Token))
	case l.User != "" && l.Password == "":
		options = append(options, nats.Token(l.User))
	case l.User != "":
		options = append(options, nats.UserInfo(l.User, l.Password))
	}
	if l.CA != "" {
		options = append(options, nats.RootCAs(l.CA))
	}
	if (l.Cert == "") != (l.Key == "") {
		return nil, Usagef("a certificate without its key, or the other way round: expected both")
	}
	if l.Cert != "" {
		options = append(options, nats.ClientCert(l.Cert, l.Key))
	}
	if l.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	if l.InboxPrefix != "" {
		if !isSubject(l.InboxPrefix) {
			return nil, Usagef("--inbox-prefix %q: expected tokens joined by dots, without wildcards and spaces", l.InboxPrefix)
		}
		options = append(options, nats.CustomInboxPrefix(l.InboxPrefix))
	}
	if l.SOCKSProxy != "" {
		dialer, err := socksDialer(l.SOCKSProxy)
		if err != nil { // it may repeat the URL, which may have a password
			return nil, errors.New("socks_proxy of the context: expected a URL such as socks5://127.0.0.1:1080, or socks5://<user>:<password>@<host>:<port>")
		}
		options = append(options, nats.SetCustomDialer(dialer))
	}
	return options, nil
}

// isSubject reports whether a text is a subject without wildcards.
func isSubject(text string) bool {
	for token := range strings.SplitSeq(text, ".") {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n") {
			return false
		}
	}
	return true
}

func socksDialer(address string) (proxy.Dialer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return proxy.FromURL(u, proxy.Direct)
}

// dial connects to the NATS server. A permission error ends the session, because the refused
// request will never be answered.
func (s *Session) dial() (*nats.Conn, error) {
	return s.DialWith(func(err error) { s.fail(err) })
}

// reconnectWait is between attempts to reach the server again. The library's two seconds would be most of
// the time that a restart of pqd takes from a command which goes on behind it.
const reconnectWait = 250 * time.Millisecond

// DialWith connects, and calls denied with each permission error.
func (s *Session) DialWith(denied func(error)) (*nats.Conn, error) {
	l, _, err := s.Login()
	if err != nil {
		return nil, err
	}
	return s.reach(l, denied)
}

// ConnectTo has the session be connected to a server that asks for no login, whatever flags, variables and contexts say.
func (s *Session) ConnectTo(server string) (err error) {
	s.NC, err = s.reach(login{Server: server}, func(err error) { s.fail(err) })
	return err
}

// reach connects by a login.
func (s *Session) reach(l login, denied func(error)) (*nats.Conn, error) {
	options, err := l.options()
	if err != nil {
		return nil, err
	}
	options = append(options,
		nats.Name("pq"), nats.Timeout(s.Global.Timeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) && !client.AskedWhetherItMay(err) {
				denied(err)
			}
		}))
	if s.Global.Timeout == 0 {
		return nil, Usagef("--timeout 0s: expected more")
	}
	server := cmp.Or(l.Server, nats.DefaultURL)
	if _, err := natsurl.Parse(server); err != nil {
		return nil, Usagef("address of the NATS server: %w", err)
	}
	nc, err := nats.Connect(server, options...)
	if err != nil {
		return nil, &connectError{natsurl.Redact(server), err}
	}
	return nc, nil
}

// Allowed runs requests. denied is the server's word if it lets this user send none of them: that ends them, and not the session.
func (s *Session) Allowed(ask func(context.Context) error) (denied, err error) {
	ctx, cancel := context.WithCancelCause(s.Context)
	defer cancel(nil)
	others := s.NC.ErrorHandler()
	defer s.NC.SetErrorHandler(others)
	s.NC.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) && !client.AskedWhetherItMay(err) {
			cancel(err)
			return
		}
		others(nc, sub, err)
	})
	err = ask(ctx)
	if cause := context.Cause(ctx); err != nil && s.Context.Err() == nil && cause != nil {
		return cause, nil
	}
	return nil, err
}

// connectError is a NATS server that cannot be reached or refuses the login.
type connectError struct {
	server string // without its login
	err    error
}

func (e *connectError) Error() string {
	return fmt.Sprintf("connect to %s: %s", e.server, WithoutPrefix(e.err))
}

func (e *connectError) Unwrap() error { return e.err }

// Login merges flags and variables with a context of the nats command, which has the lowest
// priority. It also returns the name of the context.
func (s *Session) Login() (l login, from string, err error) {
	l, from = s.Global.login, s.Global.context
	file := from
	if from == "" {
		from = s.selectedContext()
	}
	if from == "" {
		return l, "", nil
	}
	if !strings.HasSuffix(file, ".json") {
		if strings.Contains(from, "..") || strings.ContainsRune(from, filepath.Separator) {
			return l, from, Usagef("context %q: expected a name, or a file that ends in .json", from)
		}
		file = filepath.Join(s.ConfigDir(), "context", from+".json")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return l, from, Usagef("no context %q: expected the file %s (\"nats context ls\" has those there are)", from, file)
	}
	var saved natsContext
	if err == nil {
		saved, err = readContext(text)
	}
	if err == nil {
		err = saved.resolve(s.Env)
	}
	if err != nil {
		return l, from, fmt.Errorf("context %s: %w", from, err)
	}
	return l.or(saved.login), from, nil
}

// natsContext is what the nats command saves in a context.
type natsContext struct {
	login
	NSC string `json:"nsc"`
}

func readContext(text []byte) (saved natsContext, err error) {
	return saved, json.Unmarshal(text, &saved)
}

// Credentials in a context are a file, which may be a URL, or known to the nsc
// command.
const (
	fileScheme = "file://"
	nscScheme  = "nsc://"
)

// resolve completes a context as the nats command does: it asks nsc for the profile, and
// expands variables and the home directory in names of files.
func (c *natsContext) resolve(env map[string]string) error {
	if c.NSC == "" && strings.HasPrefix(c.Creds, nscScheme) {
		c.NSC = c.Creds
	}
	if c.NSC != "" {
		profile, err := nscProfile(c.NSC)
		if err != nil {
			return err
		}
		c.Creds = profile.UserCreds
		c.Server = cmp.Or(c.Server, strings.Join(profile.Operator.Service, ","))
	}
	for _, file := range []*string{&c.Creds, &c.NKey, &c.Cert, &c.Key, &c.CA} {
		*file = strings.TrimPrefix(*file, fileScheme)
		if scheme, _, found := strings.Cut(*file, "://"); found {
			return fmt.Errorf("%s:// is a scheme that pq does not know: expected a file, or %s for credentials", scheme, nscScheme)
		}
		if rest, home := strings.CutPrefix(*file, "~"); home {
			*file = env["HOME"] + rest
		}
		*file = os.Expand(*file, func(name string) string { return env[name] })
	}
	return nil
}

// profile is nsc's answer about a user.
type profile struct {
	UserCreds string `json:"user_creds"`
	Operator  struct {
		Service []string `json:"service"`
	} `json:"operator"`
}

// nscProfile asks the nsc command about a user.
func nscProfile(name string) (p profile, err error) {
	text, err := exec.Command("nsc", "generate", "profile", name).Output()
	if err != nil {
		return p, fmt.Errorf("nsc generate profile %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("the profile that nsc has of %s: %w", name, err)
	}
	if p.UserCreds == "" {
		return p, fmt.Errorf("nsc has no credentials of %s", name)
	}
	return p, nil
}

// ConfigDir is where the nats command keeps its contexts.
func (s *Session) ConfigDir() string {
	return filepath.Join(cmp.Or(s.Env["XDG_CONFIG_HOME"], filepath.Join(s.Env["HOME"], ".config")), "nats")
}

func (s *Session) selectedContext() string {
	text, err := os.ReadFile(filepath.Join(s.ConfigDir(), "context.txt"))
	if err != nil {
		return "" // none is selected
	}
	return strings.TrimSpace(string(text))
}
