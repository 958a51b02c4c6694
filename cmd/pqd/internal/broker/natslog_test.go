package broker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// An error that the embedded server logs about a client is a warning, with one text for
// all clients.
func TestServerLogOfClients(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := natsLog{log: slog.New(slog.NewTextHandler(&out, nil))}
	log.Errorf(`%s - authentication error - User "%s"`, `127.0.0.1:1234 - cid:5`, "mallory")
	log.Errorf(`[::1]:1234 - wid:6 - "v1.2:go:name" - maximum payload`)
	log.Errorf("Error trying to connect to route")
	log.Errorf("Error trying to connect to route (attempt 7): refused") // every second, of a node that is away
	for _, want := range []string{
		`level=WARN msg="error of a NATS client" host=127.0.0.1 client="127.0.0.1:1234 - cid:5" error="authentication error - User \"mallory\""`,
		`level=WARN msg="error of a NATS client" host=::1 client="[::1]:1234 - wid:6" error="\"v1.2:go:name\" - maximum payload"`,
		`level=ERROR msg="Error trying to connect to route"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("logged\n%s\nexpected %s", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "attempt 7") {
		t.Errorf("logged an attempt to reach a node that is away\n%s", out.String())
	}
}
