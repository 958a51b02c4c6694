package session

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go"
	"golang.org/x/net/proxy"
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
