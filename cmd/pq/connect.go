package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go"
)

// dial connects to the NATS server. What the server does not permit ends the
// session: nobody will answer what it did not let pass.
func (s *session) dial() (*nats.Conn, error) {
	return s.dialWith(func(err error) { s.fail(err) })
}

// dialWith connects, and tells denied what the server does not permit.
func (s *session) dialWith(denied func(error)) (*nats.Conn, error) {
	l, _, err := s.login()
	if err != nil {
		return nil, err
	}
	options, err := l.options()
	if err != nil {
		return nil, err
	}
	options = append(options,
		nats.Name("pq"), nats.Timeout(s.global.timeout), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				denied(err)
			}
		}))
	server := cmp.Or(l.Server, nats.DefaultURL)
	nc, err := nats.Connect(server, options...)
	if err != nil {
		return nil, &connectError{server, err}
	}
	return nc, nil
}

// connectError is a NATS server that cannot be reached or refuses the login.
type connectError struct {
	server string
	err    error
}

func (e *connectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.server, e.err) }
func (e *connectError) Unwrap() error { return e.err }

// login puts together how to get to the server: what flags and variables say,
// and the rest from a context of the nats command. It also says from which.
func (s *session) login() (l login, from string, err error) {
	l, from = s.global.login, s.global.context
	file := from
	if from == "" {
		from = s.selectedContext()
	}
	if from == "" {
		return l, "", nil
	}
	if !strings.HasSuffix(file, ".json") {
		if strings.Contains(from, "..") || strings.ContainsRune(from, filepath.Separator) {
			return l, from, usagef("context %q: expected a name, or a file that ends in .json", from)
		}
		file = filepath.Join(s.configDir(), "context", from+".json")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return l, from, usagef("no context %q: expected the file %s (\"nats context ls\" has those there are)", from, file)
	}
	var saved login
	if err == nil {
		saved, err = readContext(text)
	}
	if err != nil {
		return l, from, fmt.Errorf("context %s: %w", from, err)
	}
	return l.or(saved.expand(s.env)), from, nil
}

// readContext reads a context of the nats command.
func readContext(text []byte) (login, error) {
	var saved struct {
		login
		NSC   string `json:"nsc"`
		SOCKS string `json:"socks_proxy"`
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return login{}, err
	}
	for field, value := range map[string]string{"nsc": saved.NSC, "socks_proxy": saved.SOCKS} {
		if value != "" {
			return login{}, fmt.Errorf("it has the field %s, which pq does not know: use flags or another context", field)
		}
	}
	return saved.login, nil
}

// configDir is where the nats command keeps its contexts.
func (s *session) configDir() string {
	return filepath.Join(cmp.Or(s.env["XDG_CONFIG_HOME"], filepath.Join(s.env["HOME"], ".config")), "nats")
}

func (s *session) selectedContext() string {
	text, err := os.ReadFile(filepath.Join(s.configDir(), "context.txt"))
	if err != nil {
		return "" // none is selected
	}
	return strings.TrimSpace(string(text))
}

// or takes from other what l does not say. A login is taken as a whole: half of
// one and half of another fit nowhere.
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

// expand does what the nats command does with the file names in a context.
func (l login) expand(env map[string]string) login {
	for _, file := range []*string{&l.Creds, &l.NKey, &l.Cert, &l.Key, &l.CA} {
		if rest, home := strings.CutPrefix(*file, "~"); home {
			*file = env["HOME"] + rest
		}
		*file = os.Expand(*file, func(name string) string { return env[name] })
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
		return nil, usagef("a certificate without its key, or the other way round: expected both")
	}
	if l.Cert != "" {
		options = append(options, nats.ClientCert(l.Cert, l.Key))
	}
	if l.TLSFirst {
		options = append(options, nats.TLSHandshakeFirst())
	}
	if l.InboxPrefix != "" {
		options = append(options, nats.CustomInboxPrefix(l.InboxPrefix))
	}
	return options, nil
}
