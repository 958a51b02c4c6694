package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// What a queue notices of a client that has the rights to another one and asks as much
// as it can: the quiet queue is asked at a steady rate, before and during each load.

// neighbourConfig has a user for either queue, and no others.
const neighbourConfig = `authorization { users: [
  {user: pqd, password: pqd}
  {user: quiet, password: quiet, permissions: {publish: ["pq.quiet.>"], subscribe: ["_INBOX.quiet.>"]}}
  {user: loud, password: loud, permissions: {publish: ["pq.loud.>"], subscribe: ["_INBOX.loud.>"]}}
]}
`

const (
	quietClients = 8
	quietPause   = 20 * time.Millisecond // between a client's rounds of a push, a lease and its acknowledgement
	loudClients  = 64
)

// ask is a message of the loud client.
type ask struct {
	verb   string // behind the queue's name
	header nats.Header
	body   []byte
	settle bool // what comes is settled with word
	word   string
	often  int // what comes in a bundle is settled so often, by bundles; 0: by one message
}

// loud is a load: what the queue is made of, and what is asked of it then.
type loud struct {
	name    string
	config  string
	fill    func(n int) ask // of the n-th of many pushes
	fills   int
	asks    func(n int) ask
	waiting time.Duration // of an answer
}

func push(headers ...string) func(int) ask {
	return func(n int) ask {
		h := nats.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], fmt.Sprintf(headers[i+1], n))
		}
		return ask{verb: "push." + strconv.Itoa(n%priorities), header: h, body: bytes.Repeat([]byte{'x'}, payloadSize)}
	}
}

func verb(name, body string, headers ...string) func(int) ask {
	return func(int) ask {
		h := nats.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return ask{verb: name, header: h, body: []byte(body)}
	}
}

// either asks both, one after the other.
func either(asks ...func(int) ask) func(int) ask {
	return func(n int) ask { return asks[n%len(asks)](n / len(asks)) }
}

func leased(word string, headers ...string) func(int) ask {
	return func(n int) ask {
		a := verb("pop.min", "", append(headers, "PQ-Lease", "1m")...)(n)
		a.settle, a.word = true, word
		return a
	}
}

// kept keeps a bundle of leases by many bundles of settlements.
func kept(n int) ask {
	a := leased("+WPI", "PQ-Bundle", "1000")(n)
	a.often = 1000
	return a
}

// leaseLine has the ack subject of an item in a bundle.
var leaseLine = regexp.MustCompile(`(?m)^PQ-Ack: (\S+)`)

// settlements is a bundle that settles all items of another one.
func (a ask) settlements(items []byte) *nats.Msg {
	var body bytes.Buffer
	n := 0
	for _, ack := range leaseLine.FindAllSubmatch(items, -1) {
		fmt.Fprintf(&body, "%s %s\n", ack[1], a.word)
		n++
	}
	return &nats.Msg{Subject: "pq.loud.ack.bundle.settle", Header: nats.Header{"PQ-Bundle": {strconv.Itoa(n)}}, Data: body.Bytes()}
}

func bundle(headers string) func(int) ask {
	return func(n int) ask {
		var body bytes.Buffer
		for i := range 1000 {
			h := fmt.Sprintf(headers, n*1000+i)
			fmt.Fprintf(&body, "%d 1\n%sx\n", len(h), h)
		}
		return ask{verb: "push", header: nats.Header{"PQ-Bundle": {"1000"}}, body: body.Bytes()}
	}
}

var louds = []loud{
	{name: "small pushes", asks: push()},
	{name: "pushes of 500 kB", asks: func(int) ask { return ask{verb: "push", body: make([]byte, 500_000)} }},
	{name: "bundles of 1,000 pushes", asks: bundle("")},
	{name: "bundles of 1,000 keys", asks: bundle("PQ-Key: k%d\n")},
	{name: "pushes with ids", asks: push("Nats-Msg-Id", "id-%d")},
	{name: "pushes that replace one another", asks: func(n int) ask { return push("PQ-Unique", fmt.Sprintf("v%d", n%10), "PQ-On-Conflict", "replace")(n) }},
	{name: "pushes and pops", asks: either(push(), verb("pop.min", ""))},
	{name: "leases and acknowledgements", asks: either(push(), leased("+ACK"))},
	{name: "leases given back", fills: 1000, fill: push(), asks: leased("-NAK")},
	{name: "leases that run out", fills: 100_000, fill: push(), asks: verb("pop.min", "", "PQ-Lease", "1s")},
	{name: "pops of 1,000", fills: 200_000, fill: push(), asks: either(verb("pop.min", "", "PQ-Bundle", "1000"), bundle(""))},
	{name: "keyed pops of 1,000, a lease a key", config: `{"key_limit":1}`, fills: 50_000, fill: push("PQ-Key", "k%d"), asks: leased("+ACK", "PQ-Bundle", "1000")},
	{name: "bundles of 1,000 settlements", fills: 100_000, fill: push(), asks: kept},
	{name: "keys in turns", config: `{"fair":"priority"}`, fills: 50_000, fill: push("PQ-Key", "k%d"), asks: either(push("PQ-Key", "k%d"), leased("+ACK"))},
	{name: "waiting pops", asks: verb("pop.min", "", "PQ-Wait", "10s"), waiting: 11 * time.Second},
	{name: "lists of 1,000", fills: 50_000, fill: push(), asks: verb("list", `{"limit":1000}`)},
	{name: "pages of keys", fills: 50_000, fill: push("PQ-Key", "k%d"), asks: verb("keys", "")},
	{name: "info", asks: verb("info", "")},
	{name: "configurations", asks: either(verb("admin.config", `{"max_length":1000}`), verb("admin.config", `{"max_length":2000}`))},
	{name: "purges", asks: either(bundle(""), verb("admin.purge", ""))},
	{name: "deletes", asks: either(push(), verb("admin.delete", ""))},
	{name: "delays that end at once", asks: push("PQ-Delay", "1s")},
	{name: "malformed requests", asks: verb("pop.min", "all of them", "PQ-Timeout", "1s")},
}

// loudMain is the loud client: it asks until its standard input ends.
func loudMain(addr, name string) error {
	i := slices.IndexFunc(louds, func(l loud) bool { return l.name == name })
	if i < 0 {
		return fmt.Errorf("found the load %q: expected one of this program", name)
	}
	l := louds[i]
	connect := func() (*nats.Conn, error) {
		return nats.Connect("nats://"+addr, nats.UserInfo("loud", "loud"), nats.CustomInboxPrefix("_INBOX.loud"), nats.Timeout(10*time.Second))
	}
	first, err := connect()
	if err != nil {
		return err
	}
	defer first.Close()
	if l.config != "" {
		if _, err := first.Request("pq.loud.admin.config", []byte(l.config), answerLimit); err != nil {
			return err
		}
	}
	filler := natsClient{first}
	n := -1
	err = filler.publish(l.fills, func() *nats.Msg { n++; return l.fill(n).message() }, func(*nats.Msg) error { return nil })
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var done sync.WaitGroup
	for c := range loudClients {
		nc, err := connect()
		if err != nil {
			return err
		}
		done.Go(func() {
			for n := c; !nc.IsClosed(); n += loudClients {
				a := l.asks(n)
				m, err := nc.RequestMsg(a.message(), max(l.waiting, 5*time.Second))
				for range a.often {
					if err == nil {
						_, err = nc.RequestMsg(a.settlements(m.Data), 5*time.Second)
					}
				}
				if err == nil && a.settle && a.often == 0 && m.Reply != "" {
					_, _ = nc.Request(m.Reply, []byte(a.word), 5*time.Second)
				}
			}
		})
		defer nc.Close()
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (a ask) message() *nats.Msg {
	return &nats.Msg{Subject: "pq.loud." + a.verb, Header: a.header, Data: a.body}
}

// measureNeighbours compares the quiet queue's latencies before and during each load whose name
// matches.
func (r *runner) measureNeighbours(ctx context.Context, only *regexp.Regexp) error {
	config := filepath.Join(r.site.dir, "neighbours.conf")
	if err := os.WriteFile(config, []byte(neighbourConfig), 0o644); err != nil {
		return err
	}
	t := table{{"", "before, p50 / p99", "during, p50 / p99", "p99, ratio", "refused"}}
	for _, l := range louds {
		if !only.MatchString(l.name) {
			continue
		}
		row, err := r.besides(ctx, config, l)
		if err != nil {
			return fmt.Errorf("beside %s: %w", l.name, err)
		}
		t.add(row...)
		r.progress("%v", row)
	}
	fmt.Printf("A push, a lease and its acknowledgement of %d clients, each every %s, while %d clients with the rights to another queue ask as much as they can\n\n", quietClients, quietPause, loudClients)
	t.write(os.Stdout)
	return nil
}

// besides is one load, on a pqd of its own.
func (r *runner) besides(ctx context.Context, config string, l loud) (row []string, err error) {
	s := &server{system: systemNamed(namePQD), name: "neighbours", dir: filepath.Join(r.site.dir, "neighbours")}
	if err := os.RemoveAll(s.dir); err != nil {
		return nil, err
	}
	if err := startPQD("PQ_NATS_CONFIG="+config, "NATS_USER=pqd", "NATS_PASSWORD=pqd")(ctx, r.site, s); err != nil {
		return nil, err
	}
	defer s.kill()
	quiet, err := connectQuiet(ctx, s)
	if err != nil {
		return nil, err
	}
	defer quiet.Close()
	if _, _, err := quietly(quiet, r.plan.phase/4); err != nil { // warm
		return nil, err
	}
	before, _, err := quietly(quiet, r.plan.phase)
	if err != nil {
		return nil, err
	}
	load := exec.CommandContext(ctx, r.site.self, "loud", s.addr, l.name)
	stdin, err := load.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := load.StdoutPipe()
	if err != nil {
		return nil, err
	}
	load.Stderr = os.Stderr
	if err := load.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stdin.Close(), load.Wait()) }()
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		return nil, fmt.Errorf("the loud client: %w", err)
	}
	during, refused, err := quietly(quiet, r.plan.phase)
	if err != nil {
		return nil, err
	}
	p := func(all []time.Duration, part float64) time.Duration { return all[int(part*float64(len(all)-1))] }
	cell := func(all []time.Duration) string {
		return fmt.Sprintf("%.1f / %.1f ms", p(all, 0.5).Seconds()*1e3, p(all, 0.99).Seconds()*1e3)
	}
	return []string{l.name, cell(before), cell(during), fmt.Sprintf("%.1f", float64(p(during, 0.99))/float64(p(before, 0.99))), strconv.Itoa(refused)}, nil
}

func connectQuiet(ctx context.Context, s *server) (nc *nats.Conn, err error) {
	err = s.patiently(ctx, func() error {
		if nc, err = nats.Connect("nats://"+s.addr, nats.UserInfo("quiet", "quiet"), nats.CustomInboxPrefix("_INBOX.quiet")); err != nil {
			return err
		}
		m, err := nc.Request("pq.quiet.info", nil, time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") == "503" {
			nc.Close()
			return errors.Join(err, errors.New("pqd does not answer"))
		}
		return nil
	})
	return nc, err
}

// quietly asks the quiet queue at a steady rate, and returns how long each answer took,
// sorted, and how many requests were refused or not answered.
func quietly(nc *nats.Conn, during time.Duration) (took []time.Duration, refused int, err error) {
	var mu sync.Mutex
	var done sync.WaitGroup
	end := time.Now().Add(during)
	for range quietClients {
		done.Go(func() {
			request := func(m *nats.Msg) *nats.Msg {
				began := time.Now()
				answer, failed := nc.RequestMsg(m, answerLimit)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
				if failed != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
					refused++
					return nil
				}
				return answer
			}
			time.Sleep(rand.N(quietPause))
			for next := time.Now(); next.Before(end); next = next.Add(quietPause) {
				time.Sleep(time.Until(next))
				request(&nats.Msg{Subject: "pq.quiet.push.1", Data: make([]byte, payloadSize)})
				if item := request(&nats.Msg{Subject: "pq.quiet.pop.min", Header: leaseHeader}); item != nil && item.Reply != "" {
					request(&nats.Msg{Subject: item.Reply})
				}
			}
		})
	}
	done.Wait()
	slices.Sort(took)
	if len(took) == 0 {
		return nil, 0, errors.New("the quiet queue was not asked")
	}
	return took, refused, nil
}
