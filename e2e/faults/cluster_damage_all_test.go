package faults_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// damagedAll are three nodes on copies of what they had, each damaged in another place.
type damagedAll struct {
	*keptNodes
	*testing.T
	hurt   []damage // by node
	before []int    // how long the log of each node was
	gone   bool     // a recovery has named what is lost
}

// kinds of files of a node, by what damage to them means.
var kinds = []struct {
	name string
	has  func(file string) bool
}{
	{"entries of the log", func(file string) bool { return strings.Contains(file, "/PQ_CLUSTER/") && filepath.Ext(file) == ".blk" }},
	{"a group of the log", func(file string) bool { return strings.Contains(file, "/_js_/") && !strings.Contains(file, "/_meta_/") }},
	{"the list of streams", func(file string) bool { return strings.Contains(file, "/_meta_/") }},
	{"the copy", func(file string) bool { return strings.HasPrefix(file, "copy-") }},
	{"any file", func(string) bool { return true }},
}

// hurtAll damages a file of each node. Two nodes never have the same one damaged: what one has lost another one may have.
func (r *keptNodes) hurtAll(t *testing.T, random *rand.Rand) (hurt []damage) {
	t.Helper()
	for node, dir := range r.dirs {
		all := pqd.Files(t, dir)
		kind := kinds[random.IntN(len(kinds))]
		of := maps.Clone(all)
		maps.DeleteFunc(of, func(file string, content []byte) bool {
			return len(content) == 0 || !kind.has(file) || slices.ContainsFunc(hurt, func(d damage) bool { return d.file == file })
		})
		if len(of) == 0 {
			of = all
		}
		d := damaged(of, random)
		hurt = append(hurt, d)
		t.Logf("%s: %s %s", r.nodes.All[node].Node(), d.file, d.what)
	}
	return hurt
}

// misses kills a node for good that does not serve, so that two alone have the rest.
func (r *keptNodes) misses(t *testing.T) {
	active := r.nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(r.nodes.All), func(p *testenv.Process) bool { return p == active })
	others[r.random.IntN(len(others))].Kill(t)
}

// start starts all nodes at once, and waits until they serve, or are at rest without that. It says how that looks.
func (d *damagedAll) start(seed uint64) (outcome string) {
	t := d.T
	for i, p := range d.nodes.All {
		d.unfold(t, i, d.hurt[i])
		d.before = append(d.before, len(p.Log()))
	}
	defer d.end()
	for _, p := range d.nodes.All {
		p.Begin(t)
	}
	how := ""
	if !d.serves() {
		d.stopped()
		if how = d.mend(); !d.serves() {
			return "it stops, says so, and goes on neither by itself nor " + how
		}
		how = "it stops, says so, and goes on " + how + ": "
	}
	return how + d.judged(seed)
}

// judged has a client use nodes that serve, and says what they have.
func (d *damagedAll) judged(seed uint64) string {
	url := d.url()
	if d.refuses(url) {
		return "it serves, and refuses what it cannot read"
	}
	if d.gone {
		return "what is missing was named"
	}
	d.resume(d.T, url, d.keptNodes.end, seed)()
	if said := d.said(); len(said) > 0 {
		return "nothing is missing, and a node says what is damaged"
	}
	return "nothing is missing"
}

// serves waits until a node is active and ready, or all are at rest without that, and reports which.
func (d *damagedAll) serves() bool {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	late, before, since := testenv.Times(settlesWithin), "", time.Now()
	for began := time.Now(); ; <-look.C {
		now := ""
		for _, p := range d.nodes.All {
			page := d.page(p)
			if strings.Contains(page, `"status": "ok"`) && strings.Contains(page, `"role": "active"`) {
				return true
			}
			now += fmt.Sprintln(p.Running(), page)
		}
		if now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) > testenv.Times(restsFor) || time.Since(began) > late {
			return false
		}
	}
}

// How long nodes with damage need, at most, to serve on a machine that runs the test alone, and how long they do the same without that
// only for a time: some end and mend themselves, elections take up to nine seconds, and a log is not lost at the first look.
const (
	settlesWithin = time.Minute
	restsFor      = 20 * time.Second
)

// page is /readyz of a node; "": it has ended, or does not answer yet.
func (d *damagedAll) page(p *testenv.Process) string {
	if !p.Running() {
		return ""
	}
	return p.Page(d.T, "/readyz")
}

// stopped judges nodes that do not serve: each that runs says in /readyz and in its log why, or what it waits for, and each that
// has ended names the file or the group.
func (d *damagedAll) stopped() {
	for i, p := range d.nodes.All {
		page := d.page(p)
		switch {
		case !p.Running():
			if code := p.AwaitEnd(d.T); code != 1 || !strings.Contains(p.Log()[d.before[i]:], p.Data()) {
				d.Errorf("%s has ended with %d, expected 1 and the name of a file", p.Node(), code)
			}
			d.Logf("%s, with damage to %s, has ended: %s", p.Node(), d.hurt[i].file, last(p.Log(), ""))
		default:
			d.Logf("%s, with damage to %s: %s", p.Node(), d.hurt[i].file, cmp.Or(page, last(p.Log()[d.before[i]:], `"msg":"waiting"`)))
		}
	}
	if len(d.said()) == 0 {
		d.Errorf("the nodes do not serve, and no /readyz and no log says that anything is damaged or lost")
	}
}

// mend does what the nodes say, and says what that was. A recovery names what it gives up.
func (d *damagedAll) mend() (how string) {
	away := make(map[string]*testenv.Process) // what a node says to move away
	copies := 0
	for i, p := range d.nodes.All {
		text := d.page(p) + p.Log()[d.before[i]:]
		for _, m := range movesAway.FindAllStringSubmatch(text, -1) {
			if away[m[1]] == nil && m[1] == p.Dir {
				copies++
			}
			away[m[1]] = p
		}
	}
	for path, p := range away {
		if path == p.Dir && copies == len(d.nodes.All) {
			continue // without any copy there is only pqd salvage
		}
		if p.Running() {
			p.Kill(d.T)
		}
		if err := os.Rename(path, path+".away"); err != nil {
			d.Fatal(err)
		}
		how = fmt.Sprintf("without %d damaged files or copies", len(away))
	}
	for _, p := range d.nodes.All {
		if !p.Running() {
			p.Begin(d.T)
		}
	}
	if d.serves() {
		return how
	}
	at := slices.IndexFunc(d.nodes.All, func(p *testenv.Process) bool { return strings.Contains(d.page(p), "pqd recover") })
	if at < 0 {
		return how
	}
	asked := d.nodes.All[at]
	code, stdout, stderr := asked.RunBeside(d.T, "recover", "--yes")
	d.Logf("pqd recover --yes beside %s: %d\n%s%s", asked.Node(), code, stdout, stderr)
	if code == 0 && !strings.Contains(stdout, "lost: nothing that any node knows of") {
		d.gone = true
	}
	return strings.TrimSpace(how + " by pqd recover")
}

// last is the last line of a log with a text.
func last(log, with string) (line string) {
	for l := range strings.Lines(log) {
		if strings.Contains(l, with) {
			line = l
		}
	}
	return line
}

// movesAway matches what a node asks to move away.
var movesAway = regexp.MustCompile(`move (/\S+) away`)

// tells matches what a node says of damage, or of entries that are lost.
var tells = regexp.MustCompile("damaged|has lost|corrupt|cannot read|contradict|pqd recover")

// said are the names of nodes of which /readyz or the log say that something is damaged or lost.
func (d *damagedAll) said() (names []string) {
	for i, p := range d.nodes.All {
		text := d.page(p) + p.Log()[d.before[i]:]
		if tells.MatchString(text) {
			names = append(names, p.Node())
		}
	}
	return names
}

// refuses reports whether the queue cannot be read, whichever node is asked for some time. /readyz says so then.
func (d *damagedAll) refuses(url string) bool {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		d.Fatal(err)
	}
	defer nc.Close()
	const looks = 20
	for range looks {
		answer := pqd.AskServing(d.T, nc, "pq."+keptQueue+".list", `{"limit":1000}`)
		if answer.Header.Get("Nats-Service-Error-Code") != "506" {
			return false
		}
		<-time.After(100 * time.Millisecond) // another node may take over
	}
	if !slices.ContainsFunc(d.nodes.All, func(p *testenv.Process) bool { return strings.Contains(d.page(p), "are damaged") }) {
		d.Errorf("the queue cannot be read, and no /readyz says why")
	}
	return true
}

func (d *damagedAll) url() string {
	var urls []string
	for _, p := range d.nodes.All {
		if p.Running() && p.URL != "" {
			urls = append(urls, p.URL)
		}
	}
	return strings.Join(urls, ",")
}

func (d *damagedAll) end() {
	for i, p := range d.nodes.All {
		if p.Running() {
			p.Kill(d.T)
		}
		if d.Failed() {
			d.Logf("%s logged:\n%s", p.Node(), p.Log()[d.before[i]:])
		}
	}
}

// Whatever is damaged on all three nodes while they are down, in different places, what they have together is served, or they
// serve nothing and say so. One of them has missed the last part, so two have that alone.
func TestDamageOnAllNodes(t *testing.T) {
	nightly.Only(t, "cmd/pqd/internal/broker and fdbpq/kv/cluster have damage of each kind")
	t.Parallel()
	r, results := keepNodes(t, func(r *keptNodes) { r.misses(t) }), make(map[string]int)
	t.Log(history.Summary(r.operations))
	rounds := cmp.Or(*flagFlips, nightly.Fewer(30))
	for n := range rounds {
		hurtBy, seed := rand.New(rand.NewPCG(r.random.Uint64(), 0)), r.random.Uint64()
		if !t.Run(fmt.Sprint(n), func(t *testing.T) {
			outcome := (&damagedAll{keptNodes: r, T: t, hurt: r.hurtAll(t, hurtBy)}).start(seed)
			t.Log(outcome)
			results[outcome]++
		}) {
			break
		}
	}
	for _, what := range slices.Sorted(maps.Keys(results)) {
		t.Logf("%4d %s", results[what], what)
	}
}
