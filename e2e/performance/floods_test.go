package performance_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

const (
	floodOthers = 20 // tenants beside the one that floods
	floodPause  = 5 * time.Millisecond
	floodRate   = 50_000 // messages a second, where the server takes so many
	floodInbox  = "_INBOX.flood"

	// How much longer the others' slowest requests of a hundred may take beside a flood: loosely, for all
	// programs share the machine.
	floodTimes = 20
	floodSlack = 250 * time.Millisecond
)

// deluge is what one connection of a tenant sends again and again, without waiting for answers.
type deluge struct {
	what    string
	subject string // without the tenant
	headers string // the header block
	body    int    // its length
	bundle  int    // or it has the frames of so many items
	reply   string // behind the inbox
	silent  bool   // without a reply subject
	beside  int    // further connections that do the same
}

func (f deluge) message() []byte {
	reply := floodInbox + f.reply + " "
	if f.silent {
		reply = ""
	}
	to := "pq.FLOOD." + f.subject + " " + reply
	body := strings.Repeat("x", f.body) + strings.Repeat("0 1\nx\n", f.bundle)
	if f.headers == "" {
		return fmt.Appendf(nil, "PUB %s%d\r\n%s\r\n", to, len(body), body)
	}
	return fmt.Appendf(nil, "HPUB %s%d %d\r\n%s%s\r\n", to, len(f.headers), len(f.headers)+len(body), f.headers, body)
}

// headed is a header block with so many headers of a length.
func headed(headers, length int) string {
	return "NATS/1.0\r\n" + strings.Repeat("A: "+strings.Repeat("x", length)+"\r\n", headers) + "\r\n"
}

var deluges = []deluge{
	{what: "well-formed info", subject: "jobs.info"},
	{what: "malformed requests", subject: "jobs.nonsense"},
	{what: "acks with invented tokens", subject: "jobs.ack.connection.token"},
	{what: "bad header blocks", subject: "jobs.push", headers: "NATS/1.0\r\nnonsense\r\n\r\n"},
	{what: "malformed pushes without reply", subject: "jobs.push.high", silent: true},
	{what: "pushes of 1 MB", subject: "jobs.push", body: 1 << 20},
	{what: "headers of 66 kB", subject: "jobs.push", headers: headed(1, 66_000)},
	{what: "300 short headers", subject: "jobs.get.x", headers: headed(300, 1), beside: 3},
	{what: "900 short headers", subject: "jobs.get.x", headers: headed(900, 1), beside: 3},
	{what: "30 headers", subject: "jobs.get.x", headers: headed(30, 100)},
	{what: "subjects of many tokens", subject: "jobs.push" + strings.Repeat(".x", 200)},
	{what: "long reply subjects", subject: "jobs.push", reply: "." + strings.Repeat("x", 900)},
	{what: "bundles of small items", subject: "jobs.push", headers: "NATS/1.0\r\nPQ-Bundle: 1000\r\n\r\n", bundle: 1000},
}

// One tenant floods pqd beside twenty others, who are served as before. The log has their latencies before and meanwhile.
func TestFloodOfOneTenant(t *testing.T) {
	nightly.Only(t, "it measures; TestFloodOfTenant of the receiver has the refusals")
	span := max(*tenantsFor, testenv.Times(time.Second))
	dir := t.TempDir()
	config, quotas := filepath.Join(dir, "nats.conf"), filepath.Join(dir, "tenants.json")
	pqd.Write(t, config, floodAccounts())
	pqd.Write(t, quotas, fmt.Sprintf(`{"default":{"requests":%d}}`, *tenantQuota))
	for _, f := range deluges {
		t.Run(f.what, func(t *testing.T) {
			p := testenv.Daemon(t, "PQ_TENANTS="+quotas, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "NATS_USER=pqd", "NATS_PASSWORD=secret")
			var others []*nats.Conn
			for i := range floodOthers {
				others = append(others, p.Connect(t, nats.UserInfo(fmt.Sprintf("T%d", i), "secret")))
			}
			floodNeighbours(t, others, span/10) // make the queues
			before := floodNeighbours(t, others, span)
			ends := make([]func() (int, map[string]int), 1+f.beside)
			for i := range ends {
				ends[i] = f.begin(t, p)
			}
			during := floodNeighbours(t, others, span)
			sent, answers := 0, make(map[string]int)
			for _, end := range ends {
				n, got := end()
				sent += n
				for code, count := range got {
					answers[code] += count
				}
			}
			ratio := func(thousandth int) string {
				from, to := before.at(thousandth), during.at(thousandth)
				return fmt.Sprintf("%s to %s: %.1f", from, to, float64(to)/float64(from))
			}
			t.Logf("p50 %s, p99 %s, p99.9 %s; %.0f messages a second, answered %v", ratio(500), ratio(990), ratio(999), float64(sent)/span.Seconds(), answers)
			if from, to := before.at(990), during.at(990); to > floodTimes*from+testenv.Times(floodSlack) {
				t.Errorf("the others' p99 rises from %s to %s", from, to)
			}
			p.Stop(t)
		})
	}
}

// floodAccounts has an account for pqd, for each of the others and for the one that floods.
func floodAccounts() string {
	var b strings.Builder
	b.WriteString(`listen: 127.0.0.1:-1
accounts {
  PQ { users: [ {user: pqd, password: secret} ], exports: [ {service: "pq.*.>", response_type: stream, account_token_position: 2} ] }
`)
	tenant := func(name string) {
		fmt.Fprintf(&b, "  %[1]s { users: [ {user: %[1]s, password: secret} ], imports: [ {service: {account: PQ, subject: \"pq.%[1]s.>\"}} ] }\n", name)
	}
	tenant("FLOOD")
	for i := range floodOthers {
		tenant(fmt.Sprintf("T%d", i))
	}
	b.WriteString("}\n")
	return b.String()
}

// floodNeighbours has the tenants push and pop in turn for a while, and returns how long each request took. All of them have to be
// served.
func floodNeighbours(t *testing.T, others []*nats.Conn, span time.Duration) (all latencies) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	unserved := make(map[string]int)
	tick := time.NewTicker(floodPause)
	defer tick.Stop()
	next := 0
	for end := time.Now().Add(span); time.Now().Before(end); <-tick.C {
		i := next
		next = (next + 1) % len(others)
		group.Go(func() {
			for _, verb := range []string{"push", "pop.min"} {
				began := time.Now()
				m, err := others[i].Request(fmt.Sprintf("pq.T%d.jobs.%s", i, verb), nil, testenv.Patience())
				took := time.Since(began)
				mu.Lock()
				switch {
				case err != nil:
					unserved[err.Error()]++
				case m.Header.Get("Nats-Service-Error-Code") != "" && m.Header.Get("PQ-Reason") != "empty":
					unserved[m.Header.Get("Nats-Service-Error-Code")]++
				default:
					all = append(all, took)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(all)
	if len(unserved) > 0 {
		t.Errorf("of %d requests of others some were not served: %v", len(all), unserved)
	}
	return all
}

// begin has a connection send, whatever is answered. The end returns how many messages it has sent, and how many answers
// came of each kind.
func (f deluge) begin(t *testing.T, p *testenv.Process) (end func() (sent int, answers map[string]int)) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	hello := `CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1,"user":"FLOOD","pass":"secret"}` + "\r\nSUB " + floodInbox + " 1\r\n"
	if _, err := io.WriteString(conn, hello); err != nil {
		t.Fatal(err)
	}
	one := f.message()
	many := max(1, 4<<10/len(one))
	block := bytes.Repeat(one, many)
	var sent atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for start := time.Now(); ; <-tick.C {
			for sent.Load() < int64(floodRate*time.Since(start).Seconds()) {
				if _, err := conn.Write(block); err != nil {
					return // the connection was closed
				}
				sent.Add(int64(many))
			}
		}
	})
	answers := make(map[string]int)
	group.Go(func() {
		if err := floodAnswers(conn, answers); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection that floods: %v", err)
		}
	})
	return func() (int, map[string]int) {
		n := int(sent.Load())
		_ = conn.Close()
		group.Wait()
		return n, answers
	}
}

// floodAnswers counts answers by their codes until the connection is closed.
func floodAnswers(conn net.Conn, answers map[string]int) error {
	r := bufio.NewReaderSize(conn, 1<<18)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("-ERR")):
			return fmt.Errorf("the server says %s", line)
		case bytes.HasPrefix(line, []byte("HMSG ")), bytes.HasPrefix(line, []byte("MSG ")):
		default:
			continue
		}
		var size int
		if _, err := fmt.Sscan(string(line[bytes.LastIndexByte(line, ' ')+1:]), &size); err != nil {
			return err
		}
		body := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		code := "other"
		if _, after, found := bytes.Cut(body, []byte("Nats-Service-Error-Code: ")); found {
			code = string(after[:3])
		} else if bytes.HasPrefix(body, []byte("NATS/1.0 503")) {
			code = "no responders"
		}
		answers[code]++
	}
}
