package natsurl_test

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// No list of servers shows a password, and an address that the NATS library would read as
// another one is refused.
func TestServerAddresses(t *testing.T) {
	t.Parallel()
	for list, shown := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222",
		"localhost":             "nats://localhost",
		"u:secret@host:4222":    "nats://xxxxx@host:4222",
		"secret@host":           "nats://xxxxx@host",
		" tls://u:s%40ecret@h:1 , wss://[::1]:443,": "tls://xxxxx@h:1,wss://[::1]:443",
		"nats://u:secret@":                          "",
		"nats://u:se%ret@host":                      "",
		"nats://u:se#cret@host":                     "",
		"nats://u:1#secret@host":                    "",
		"nats://u:1?secret@host":                    "",
		"nats://u:1/secret@host":                    "",
		"nats://u:sec,ret@host":                     "",
		"nats://host:65536":                         "",
		"nats://":                                   "",
		", ,":                                       "",
	} {
		_, err := natsurl.Parse(list)
		if (err == nil) != (shown != "") {
			t.Errorf("%q: %v, expected to be shown as %q", list, err, shown)
		}
		if err != nil {
			shown = "xxxxx"
			if strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret") {
				t.Errorf("%q: the error has a part of the password: %v", list, err)
			}
		}
		if got := natsurl.Redact(list); got != shown {
			t.Errorf("%q is shown as %q, expected %q", list, got, shown)
		}
	}
}

// An address of another kind of server says what was expected, and repeats its scheme alone.
func TestAddressesOfOtherServers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"http://127.0.0.1:8622":                      "address 1 of the list begins with http://: expected nats://, tls://, ws:// or wss://",
		"nats://a:4222,https://u:secret@b.test/path": "address 2 of the list begins with https://: expected nats://, tls://, ws:// or wss://",
		"secret://b": "address 1 of the list is malformed: expected nats://<host>:<port>",
	} {
		if _, err := natsurl.Parse(list); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, expected %s", list, err, want)
		}
	}
}

type connected string

func (c connected) ConnectedUrl() string { return string(c) }

// A connection shows neither a password nor a token, which stands where a user does.
func TestAddressOfAConnection(t *testing.T) {
	t.Parallel()
	for server, shown := range map[string]string{"": "", "nats://host:4222": "nats://host:4222", "nats://u:secret@host:4222": "nats://xxxxx@host:4222", "nats://secret@host:4222": "nats://xxxxx@host:4222"} {
		if got := natsurl.Of(connected(server)); got != shown {
			t.Errorf("%q is shown as %q, expected %q", server, got, shown)
		}
	}
}
