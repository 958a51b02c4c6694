package versions_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// anyValues are values, as JSON, of which one fits any field of a configuration and is not its default.
var anyValues = []string{"true", "7", `"7"`, `"1m"`, `"100/1m"`, `"*"`, `"priority"`, `{"delay":"1s"}`}

// A queue that uses what the earlier program does not know is refused by it, by the name of its format. All other queues
// are served meanwhile, and this program finds the queue as it was.
func TestVersionsOfDoors(t *testing.T) {
	before := needEarlier(t)
	old, known := before.build(t, "cmd/pqd"), before.fields(t)
	p := testenv.Daemon(t)
	nc := p.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait))
	var doors []string
	for field := range reflect.TypeFor[protocol.Config]().Fields() {
		if name := field.Tag.Get("json"); !known[name] {
			doors = append(doors, "door-"+strings.ReplaceAll(name, "_", "-"))
			use(t, nc, doors[len(doors)-1], name)
		}
	}
	const open = "open"
	for _, queue := range append(doors, open) {
		pqd.Push(t, nc, queue, 1, "of "+queue)
		pqd.Push(t, nc, queue, 2, "of "+queue)
	}
	p.Stop(t)
	p.Runs(old)
	p.Start(t)
	for _, queue := range doors {
		for _, subject := range []string{"push.3", "pop.min", "info"} {
			reply := pqd.Request(t, nc, "pq."+queue+"."+subject, "")
			if text := fmt.Sprint(reply.Header, string(reply.Data)); !strings.Contains(text, "format") {
				t.Errorf("%s.%s of the earlier program: %s, expected that it names the format", queue, subject, text)
			}
		}
	}
	if body := pqd.Pop(t, nc, open, "min"); body != "of "+open {
		t.Errorf("beside queues that the earlier program refuses it pops %q of another one", body)
	}
	p.Stop(t)
	p.Runs("")
	p.Start(t)
	for _, queue := range doors {
		for range 2 {
			if body := pqd.Pop(t, nc, queue, "min"); body != "of "+queue {
				t.Errorf("the earlier program refused %s, and this one pops %q", queue, body)
			}
		}
	}
	p.Stop(t)
	t.Logf("the earlier program refuses %q", doors)
}

// use gives a field of a queue another value than its default.
func use(t *testing.T, nc *nats.Conn, queue, field string) {
	t.Helper()
	for _, value := range anyValues {
		if reply := pqd.Request(t, nc, "pq."+queue+".admin.config", fmt.Sprintf(`{%q:%s}`, field, value)); code(reply) == "" {
			return
		}
	}
	t.Fatalf("no value of %q fits the field %s", anyValues, field)
}
