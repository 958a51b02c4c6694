package clients_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// llm are the gateway and the provider of examples/llm, and their workers.
type llm struct {
	*testing.T
	gateway, provider string // addresses
	start             func() (kill func())
}

// provided is a line of the provider's journal.
type provided struct {
	At       time.Time `json:"at"`
	Tenant   string    `json:"tenant"`
	Priority int64     `json:"priority"`
	Tokens   int64     `json:"tokens"`
	Refused  bool      `json:"refused"`
}

// startLLM starts the example at the NATS servers at url, with a rate of tokens a second, and a provider that allows so many in per.
func startLLM(t *testing.T, url string, rate, limit int64, per time.Duration) *llm {
	t.Helper()
	py := needPython(t)
	queue, die, err := pqd.Dial(url, "prompts")
	if err != nil {
		t.Fatal(err)
	}
	defer die()
	change := client.ConfigChange{Fair: new("0"), CostRate: new(fmt.Sprintf("%d/1s", rate)), Lease: new(client.Duration(3 * time.Second))}
	if _, err := queue.Configure(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	l := &llm{T: t, gateway: "127.0.0.1:" + freePort(t), provider: "127.0.0.1:" + freePort(t)}
	run := func(program string, env []string, args ...string) {
		cmd := pqd.Command(t, testenv.Build(t, program), args...)
		cmd.Env, cmd.Stderr = append(os.Environ(), env...), t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	}
	run("examples/llm/provider", []string{"PROVIDER_LISTEN=" + l.provider}, "-limit", fmt.Sprint(limit), "-per", per.String())
	run("examples/llm/gateway", []string{"GATEWAY_LISTEN=" + l.gateway, "NATS_URL=" + url})
	for _, address := range []string{l.gateway, l.provider} {
		testenv.Await(t, address+" listens", func() bool {
			answer, err := http.Get("http://" + address)
			if err == nil {
				err = answer.Body.Close()
			}
			return err == nil
		})
	}
	script, err := filepath.Abs(filepath.Join(examples, "llm/worker.py"))
	if err != nil {
		t.Fatal(err)
	}
	l.start = func() func() {
		worker := py.command(t, script)
		worker.Env = append(worker.Env, "NATS_URL="+url, "PROVIDER_URL=http://"+l.provider, "WORKERS=25")
		output, err := worker.StdoutPipe()
		if err == nil {
			err = worker.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if said, err := bufio.NewReader(output).ReadString('\n'); err != nil || said != "ready\n" {
			t.Fatalf("the worker printed %q, %v", said, err)
		}
		return func() { _, _ = worker.Process.Kill(), worker.Wait() }
	}
	return l
}

// ask sends a request of a tenant through the gateway.
func (l *llm) ask(ctx context.Context, tenant, prompt string, most, priority int64) (status int, text string) {
	l.Helper()
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": most, "priority": priority})
	if err != nil {
		l.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.gateway+"/complete", bytes.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	request.Header.Set("X-Tenant", tenant)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(all)
}

// journal is that of the provider.
func (l *llm) journal() (all []provided) {
	l.Helper()
	answer, err := http.Get("http://" + l.provider + "/journal")
	if err != nil {
		l.Fatal(err)
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); lines.More(); {
		var one provided
		if err := lines.Decode(&one); err != nil {
			l.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// The gateway answers what the provider says, and what a request has really cost comes from the worker: of requests that may cost ten
// times the rate together, and cost a few tokens, none waits.
func TestLanguageModel(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	l := startLLM(t, p.URL, 1000, math.MaxInt64, time.Minute)
	defer l.start()()
	if status, text := l.ask(t.Context(), "", "whose", 1, 0); status != http.StatusBadRequest || !strings.Contains(text, "X-Tenant") {
		t.Errorf("without a tenant: %d %s", status, text)
	}
	for i := range 10 {
		status, text := l.ask(t.Context(), "ann", fmt.Sprint("a haiku ", i), 1000, 0)
		var said struct {
			Text   string `json:"text"`
			Tokens int64  `json:"tokens"`
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil || status != http.StatusOK || said.Tokens == 0 {
			t.Fatalf("%d %s %v", status, text, err)
		}
		if all := l.journal(); len(all) != i+1 || all[i].Tokens != said.Tokens || all[i].Tenant != "ann" {
			t.Errorf("the provider's journal has %+v, the answer %+v", all, said)
		}
	}
	queue, die, err := pqd.Dial(p.URL, "prompts")
	if err != nil {
		t.Fatal(err)
	}
	defer die()
	var spent int64
	for _, one := range l.journal() {
		spent += one.Tokens
	}
	info, err := queue.Info(t.Context())
	if err != nil || info.Cost == nil || info.Cost.Spent != spent || info.Cost.Reserved != 10*1003 {
		t.Errorf("the queue says %+v, %v; the provider counted %d of %d", info.Cost, err, spent, 10*1003)
	}
	p.Stop(t)
}

// llmTenant is one who always asks.
type llmTenant struct {
	name   string
	weight int64
	most   int64 // tokens of a request
}

// load has tenants ask all the time, a tenth of it urgently, and returns how long each kind has waited.
func (l *llm) load(ctx context.Context, tenants []llmTenant, each int, random *rand.Rand) (waits map[int64][]time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	waits = make(map[int64][]time.Duration)
	for _, tenant := range tenants {
		for range each {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			all.Go(func() {
				for ctx.Err() == nil {
					priority := min(int64(own.IntN(10)), 1)
					began := time.Now()
					status, text := l.ask(ctx, tenant.name, fmt.Sprint("a poem about ", own.Uint32()), tenant.most, priority)
					switch {
					case ctx.Err() != nil:
					case status == http.StatusOK:
						mu.Lock()
						waits[priority] = append(waits[priority], time.Since(began))
						mu.Unlock()
					default:
						l.Errorf("tenant %s: %d %s", tenant.name, status, text)
						return
					}
				}
			})
		}
	}
	all.Wait()
	return waits
}

// judge compares the journal of the provider with the rate and the weights.
func (l *llm) judge(tenants []llmTenant, rate, bound int64, within time.Duration) {
	l.Helper()
	all := l.journal()
	slices.SortFunc(all, func(a, b provided) int { return a.At.Compare(b.At) })
	of, refused := make(map[string]float64), 0
	var sum, inWindow, busiest int64
	oldest := 0
	for _, one := range all {
		if one.Refused {
			refused++
			continue
		}
		sum, inWindow = sum+one.Tokens, inWindow+one.Tokens
		for ; one.At.Sub(all[oldest].At) >= within; oldest++ {
			inWindow -= all[oldest].Tokens
		}
		busiest = max(busiest, inWindow)
		of[one.Tenant] += float64(one.Tokens)
	}
	took := all[len(all)-1].At.Sub(all[0].At)
	used := float64(sum) / (float64(rate) * (1 + took.Seconds()))
	l.Logf("%d requests in %s, %d refused; %d tokens in the busiest %s of %d; %.2f of the rate used", len(all), took.Round(time.Second), refused, busiest, within, bound, used)
	if refused > 0 || busiest > bound {
		l.Errorf("the provider refused %d requests; %d tokens in the busiest %s, expected %d at most", refused, busiest, within, bound)
	}
	var weights int64
	for _, tenant := range tenants {
		weights += tenant.weight
	}
	for _, tenant := range tenants {
		share, want := of[tenant.name]/float64(sum), float64(tenant.weight)/float64(weights)
		l.Logf("tenant %s: %.3f of the tokens, of %.3f", tenant.name, share, want)
		if math.Abs(share-want) > .1*want {
			l.Errorf("tenant %s got %.3f of the tokens, expected %.3f", tenant.name, share, want)
		}
	}
}

// Whoever is killed, the provider's limit is kept in each window, tenants get tokens by their weights, however large their requests are, and
// what is urgent waits less.
func TestLanguageModelBesideKills(t *testing.T) {
	nightly.Only(t, "TestLanguageModel runs the example, and fdbpq has shares by cost and the bound of a rate")
	t.Parallel()
	kill := func(p *testenv.Process) func(int) {
		return func(int) {
			p.Kill(t)
			p.Start(t)
		}
	}
	t.Run("one pqd", func(t *testing.T) {
		p := testenv.Daemon(t)
		llmBesideKills(t, p.URL, kill(p))
	})
	t.Run("three nodes", func(t *testing.T) {
		nodes := testenv.NewNodes(t)
		x := &pqd.NodeFaults{Nodes: nodes, Random: pqd.Seeded(t)}
		llmBesideKills(t, nodes.URL(), func(i int) {
			x.Happen(t, []string{"SIGKILL of the active node", "pq cluster step-down"}[i%2])
		})
	})
}

func llmBesideKills(t *testing.T, url string, happen func(int)) {
	random := pqd.Seeded(t)
	tenants := []llmTenant{{"gold", 3, 300}, {"silver", 1, 300}, {"bulk", 1, 1500}}
	const rate, most, within, faults = 2880, 1503, 6 * time.Second, 4
	// What the bucket lets through, the cost of one item, and what comes back of those that the workers have.
	bound := int64(rate*7 + most + 50*most)
	l := startLLM(t, url, rate, bound, within)
	queue, die, err := pqd.Dial(url, "prompts")
	if err != nil {
		t.Fatal(err)
	}
	defer die()
	for _, tenant := range tenants {
		if _, err := queue.SetKey(t.Context(), tenant.name, client.KeyChange{KeySettings: client.KeySettings{Weight: &tenant.weight}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), testenv.Times(time.Minute))
	defer stop()
	kills := []func(){l.start(), l.start()}
	moments := time.NewTicker(testenv.Times(time.Minute) / (2*faults + 1))
	defer moments.Stop()
	var beside sync.WaitGroup
	var killed []time.Time
	beside.Go(func() {
		for i := range 2 * faults {
			select {
			case <-moments.C:
			case <-ctx.Done():
				return
			}
			killed = append(killed, time.Now())
			if i%2 == 0 {
				happen(i / 2)
				continue
			}
			kills[i/2%2]()
			kills[i/2%2] = l.start()
		}
	})
	waits := l.load(ctx, tenants, 20, random)
	beside.Wait()
	for _, kill := range kills {
		kill()
	}
	l.judge(tenants, rate, bound, within)
	if *flagTenants != "" {
		drawTenants(t, *flagTenants, tenants, l.journal(), killed)
	}
	median := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)/2]
	}
	urgent, others := median(waits[0]), median(waits[1])
	t.Logf("an urgent request took %s, another one %s", urgent.Round(time.Millisecond), others.Round(time.Millisecond))
	if urgent > others/3 {
		t.Errorf("an urgent request took %s, another one %s", urgent, others)
	}
}
