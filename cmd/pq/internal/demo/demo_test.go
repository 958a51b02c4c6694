package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// place is where demos run.
type place struct {
	server *testenv.Server
	client *client.Client
	env    []string
}

// newPlace is beside a bridge of the test.
func newPlace(t *testing.T) *place {
	t.Helper()
	b := testenv.Bridge(t, bridge.Options{})
	c, err := client.New(b.NATS.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	return &place{b.NATS, c, []string{"HOME=" + t.TempDir(), "NATS_URL=" + b.NATS.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}}
}

// session is one run of pq.
func (p *place) session(ctx context.Context, t *testing.T, out *bytes.Buffer) *session.Session {
	t.Helper()
	s := session.New(ctx, p.env, strings.NewReader(""), out, out)
	t.Cleanup(s.Close)
	var err error
	if s.Global, err = session.GlobalsFrom(s.Env); err != nil {
		t.Fatal(err)
	}
	return s
}

// queues are all there are.
func (p *place) queues(t *testing.T) (names []string) {
	t.Helper()
	for name, err := range p.client.Queues(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func (p *place) expectQueues(t *testing.T, want ...string) {
	t.Helper()
	if found := p.queues(t); !slices.Equal(found, want) {
		t.Errorf("the queues are %q, expected %q", found, want)
	}
}

func (p *place) push(t *testing.T, queue, what string) {
	t.Helper()
	if _, err := p.client.Queue(queue).Push(t.Context(), []byte(what)); err != nil {
		t.Fatal(err)
	}
}

// headings are the titles of the steps that a demo has shown, each with its last line.
func headings(text string) (found []string) {
	for _, match := range regexp.MustCompile(`(?ms)^\d\. (.*?)$.*?^   (ok|FAILED)`).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1]+": "+match[2])
	}
	return found
}

// all are the headings of a demo without failures.
func all() (want []string) {
	for _, step := range steps {
		want = append(want, step.title+": ok")
	}
	return want
}

// Beside a pqd each step does what it promises, in lines for a small terminal. The queues of the demo are gone in the end, those of
// others stay. With --keep they are there, and the next demo begins anew.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := testenv.Daemon(t)
	c, err := client.New(d.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &place{nil, c, []string{"HOME=" + t.TempDir(), "NATS_URL=" + d.URL, "NATS_TIMEOUT=" + testenv.Patience().String()}}
	p.push(t, "demolition", "x")

	var out bytes.Buffer
	s := p.session(t.Context(), t, &out)
	s.Global.JSON = true
	if err := Run(s, Options{Keep: true}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	p.expectQueues(t, slices.Sorted(slices.Values(append([]string{"demolition"}, names...)))...)
	var titles []string
	for lines := json.NewDecoder(&out); lines.More(); {
		var step struct {
			Title string
			OK    bool
			Text  []string
			Look  []string
		}
		if err := lines.Decode(&step); err != nil {
			t.Fatal(err)
		}
		if titles = append(titles, step.Title); !step.OK || len(step.Text) < 2 || len(step.Look) == 0 {
			t.Errorf("found %+v", step)
		}
	}
	if len(titles) != len(steps) {
		t.Errorf("found the steps %q", titles)
	}

	out.Reset()
	if err := Run(p.session(t.Context(), t, &out), Options{}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text := out.String()
	if found := headings(text); !slices.Equal(found, all()) {
		t.Errorf("found the steps %q in\n%s", found, text)
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns && len(strings.Fields(line)) > 1 {
			t.Errorf("too long: %s", line)
		}
	}
	p.expectQueues(t, "demolition")
}

// A queue of somebody else ends the demo before it changes anything.
func TestForeignQueue(t *testing.T) {
	t.Parallel()
	for _, name := range append([]string{turnstile}, names...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.push(t, name, "of somebody else")
			var out bytes.Buffer
			err := Run(p.session(t.Context(), t, &out), Options{})
			if want := "there is a queue " + name + " that no demo has made"; err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("%v, expected %s\n%s", err, want, &out)
			}
			p.expectQueues(t, name)
			item, err := p.client.Queue(name).Pop(t.Context(), client.Min)
			if err != nil || string(item.Payload) != "of somebody else" {
				t.Errorf("%v: %v", item, err)
			}
		})
	}
}

// One demo at a time runs on a store, and takes nothing of the other one. After one that was killed the next begins anew.
func TestTwoDemos(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var outer, inner bytes.Buffer
	err := run(p.session(t.Context(), t, &outer), Options{}, []step{{"another one", func(context.Context, *demo, *page) error {
		if err := Run(p.session(t.Context(), t, &inner), Options{}); err == nil || !strings.Contains(err.Error(), "a demo runs here already, as "+holder()) {
			return fmt.Errorf("the second demo: %w", err)
		}
		if found := len(p.queues(t)); found != len(names)+1 {
			return fmt.Errorf("%d queues are left", found)
		}
		return nil
	}}})
	if err != nil {
		t.Errorf("%v\n%s", err, &outer)
	}

	killed := &queues{client: p.client}
	held, release, err := killed.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
	<-held.Done()
	p.push(t, urgent, "of a demo that was killed")
	testenv.Await(t, "the next demo begins", func() bool {
		err = run(p.session(t.Context(), t, &outer), Options{}, steps[:1])
		return err == nil || !strings.Contains(err.Error(), "runs here already")
	})
	if err != nil {
		t.Errorf("%v\n%s", err, &outer)
	}
	p.expectQueues(t)
}

// A step that fails is named, and the others are shown.
func TestFailedStep(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var out bytes.Buffer
	s := p.session(t.Context(), t, &out)
	err := run(s, Options{}, []step{
		{"Nothing works", func(context.Context, *demo, *page) error { return fmt.Errorf("as expected: %w", client.ErrEmpty) }},
		steps[0],
	})
	if code := s.Report(err); code != session.ExitFailed || !strings.HasSuffix(out.String(), "pq: 1 of 2 steps failed: 1 (Nothing works)\n") {
		t.Errorf("exit code %d\n%s", code, &out)
	}
	if found := headings(out.String()); !slices.Equal(found, []string{"Nothing works: FAILED", steps[0].title + ": ok"}) {
		t.Errorf("found %q in\n%s", found, &out)
	}
	p.expectQueues(t)
}

// Where nobody deletes the queues the demo says which ones are left.
func TestLeftQueues(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "NATS_TIMEOUT=300ms") // the last one counts
	var out bytes.Buffer
	s := p.session(t.Context(), t, &out)
	var err error
	testenv.Await(t, "the demo begins in 300 ms", func() bool {
		began := false
		out.Reset()
		err = run(s, Options{}, []step{{"The server goes", func(context.Context, *demo, *page) error {
			began = true
			p.server.Shutdown()
			return nil
		}}})
		return began
	})
	code, left := s.Report(err), "Left: "+strings.Join(append([]string{turnstile}, names...), ", ")
	if code == 0 || !strings.Contains(out.String(), left) || strings.Count(out.String(), "pq: ") != 1 {
		t.Errorf("exit code %d, expected %s in\n%s", code, left, &out)
	}
}

// Steps say what has happened: a queue that does something else makes them fail.
func TestStepsNotice(t *testing.T) {
	t.Parallel()
	configure := func(change client.ConfigChange) func(context.Context, *client.Queue) error {
		return func(ctx context.Context, q *client.Queue) error {
			_, err := q.Configure(ctx, change)
			return err
		}
	}
	push := func(options ...client.PushOption) func(context.Context, *client.Queue) error {
		return func(ctx context.Context, q *client.Queue) error {
			_, err := q.Push(ctx, []byte("of somebody else"), options...)
			return err
		}
	}
	lease := func(ctx context.Context, q *client.Queue) error {
		if err := push()(ctx, q); err != nil {
			return err
		}
		_, err := q.Pop(ctx, client.Min, client.Lease(time.Hour))
		return err
	}
	for _, tc := range []struct {
		queue string
		show  func(context.Context, *demo, *page) error
		spoil func(context.Context, *client.Queue) error
		want  string
	}{
		{urgent, urgentFirst, push(), "popped and waiting are"},
		{tenants, takeTurns, configure(client.ConfigChange{Fair: new("")}), "small got 0 of 8"},
		{budget, spendBudget, configure(client.ConfigChange{CostRate: new("")}), "demo-budget has no budget"},
		{retries, failAndDie, configure(client.ConfigChange{Backoff: new(client.Backoff(""))}), "before its backoff"},
		{retries, failAndDie, push(client.Priority(1)), "got \"of somebody else\" for attempt 1"},
		{failing, failAndDie, lease, "expected failing"},
		{failing, failAndDie, configure(client.ConfigChange{MaxDeliveries: new(int64(4))}), "0 dead letters"},
		{graveyard, failAndDie, push(), "has 2 dead letters"},
		{leases, hang, push(), "worker-2 got"},
		{calls, call, push(client.Delay(time.Hour)), "1 delayed items, expected 0, 0, 0"},
		{clock, tick, push(), `of the schedule ""`},
	} {
		t.Run(tc.queue+" "+tc.want, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			var out bytes.Buffer
			err := run(p.session(t.Context(), t, &out), Options{}, []step{{"spoiled", func(ctx context.Context, d *demo, p *page) error {
				if err := tc.spoil(ctx, d.client.Queue(tc.queue)); err != nil {
					return errors.Join(errors.New("not spoiled"), err)
				}
				return tc.show(ctx, d, p)
			}}})
			said := strings.Join(strings.Fields(out.String()), " ")
			if _, failure, _ := strings.Cut(said, "FAILED: "); err == nil || !strings.Contains(failure, tc.want) {
				t.Errorf("%v, expected %s\n%s", err, tc.want, &out)
			}
			p.expectQueues(t)
		})
	}
}
