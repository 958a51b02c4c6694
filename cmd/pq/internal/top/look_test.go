package top

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// counted is a bridge with many queues that counts what it is asked for.
type counted struct {
	client *client.Client

	mu     sync.Mutex
	names  []string
	asked  map[string]int // by verb
	seen   map[string]bool
	limits []int  // of lists of items
	extra  int    // names that a page has too many
	grave  string // dead_letter of all queues

	refused int // the answer to all, if it is not 0
}

// respond answers a request, unless the test has ended: whoever hears of one error waits for no other answers.
func respond(t *testing.T, m, answer *nats.Msg) {
	t.Helper()
	if err := m.RespondMsg(answer); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
}

func newCounted(t *testing.T, queues int) *counted {
	t.Helper()
	s := testenv.NATS(t)
	b := &counted{asked: make(map[string]int), seen: make(map[string]bool)}
	for i := range queues {
		b.names = append(b.names, fmt.Sprintf("q%06d", i))
	}
	nc := s.Connect(t)
	for subject, answer := range map[string]func(*nats.Msg) any{"pq._sys.list": b.page, "pq.*.info": b.info, "pq.*.list": b.list} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if subject == "pq.*.list" && m.Subject == "pq._sys.list" {
				return
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			found := answer(m)
			if code := cmp.Or(b.refused, 404); found == nil || b.refused != 0 {
				respond(t, m, &nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {fmt.Sprint(code)}, "Nats-Service-Error": {"refused"}}})
				return
			}
			data, err := json.Marshal(found)
			if err != nil {
				t.Error(err)
			}
			respond(t, m, &nats.Msg{Data: data})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.client, err = client.New(s.Connect(t), client.Timeout(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	return b
}

// count counts a request, and no repetition of it: a client asks again when an answer is late.
func (b *counted) count(kind string, m *nats.Msg) {
	request := m.Subject + " " + string(m.Data)
	if !b.seen[request] {
		b.seen[request] = true
		b.asked[kind]++
	}
}

func (b *counted) page(m *nats.Msg) any {
	b.count("names", m)
	var r protocol.QueuesRequest
	if json.Unmarshal(m.Data, &r) != nil || r.After == nil {
		return nil
	}
	var page protocol.QueuesPage
	for _, name := range b.names {
		if name > *r.After && strings.HasPrefix(name, r.Prefix) {
			page.Queues = append(page.Queues, name)
		}
	}
	if most := r.Limit + b.extra; len(page.Queues) > most {
		page.Queues = page.Queues[:most]
		page.Next = page.Queues[most-1]
	}
	return page
}

func (b *counted) info(m *nats.Msg) any {
	b.count("info", m)
	name := strings.Split(m.Subject, ".")[1]
	if !slices.Contains(b.names, name) && name != b.grave {
		return nil
	}
	return client.Info{Queue: name, Ready: 1, Config: client.Config{DeadLetter: b.grave}}
}

func (b *counted) list(m *nats.Msg) any {
	b.count("items", m)
	var r protocol.ListRequest
	if json.Unmarshal(m.Data, &r) != nil {
		return nil
	}
	b.limits = append(b.limits, r.Limit)
	var page protocol.Page
	for i := range r.Limit {
		page.Items = append(page.Items, protocol.Listed{ID: fmt.Sprintf("i%d", i)})
	}
	page.Next = "more"
	return page
}

// expect runs a look and compares what it asked for.
func (b *counted) expect(t *testing.T, l look, names, info, items int) any {
	t.Helper()
	b.mu.Lock()
	clear(b.asked)
	clear(b.seen)
	b.mu.Unlock()
	found, err := l.ask(t.Context(), b.client)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asked["names"] != names || b.asked["info"] != info || b.asked["items"] != items {
		t.Errorf("%+v: asked for %v, expected %d pages of names, about %d queues, %d pages of items", l, b.asked, names, info, items)
	}
	return found
}

// A look asks for the queues and items on the screen, however many there are.
func TestLooksAskForWhatIsShown(t *testing.T) {
	t.Parallel()
	b := newCounted(t, 3000)
	const shown = 20
	// Each with its queue of dead letters, which the names do not rule out.
	found := b.expect(t, overviewLook{all: true, rows: shown}, 1, 2*shown, 0).(overviewFound)
	if len(found.names) != mostNames || found.next != "q000999" || len(found.figures) != shown {
		t.Errorf("%d names, then %q, %d figures", len(found.names), found.next, len(found.figures))
	}
	found = b.expect(t, overviewLook{after: "q001999", first: "q002500", rows: shown}, 1, 2*shown, 0).(overviewFound)
	if found.figures["q002500"] == nil || found.figures["q002519"] == nil || found.next != "" {
		t.Errorf("%v", found.figures)
	}
	found = b.expect(t, overviewLook{first: "q000999", rows: shown}, 1, 2*shown, 0).(overviewFound)
	if found.figures["q000980"] == nil {
		t.Error("the end of a page is not a screen long")
	}
	// All queues are here, so that those that are not do not exist.
	found = b.expect(t, overviewLook{begin: "q0029", all: true, rows: shown}, 1, 100, 0).(overviewFound)
	if len(found.figures) != 100 || found.figures["q002900"].Dead != 0 {
		t.Errorf("%d figures", len(found.figures))
	}
	b.grave = "graves"
	found = b.expect(t, overviewLook{begin: "q0029", all: true, rows: shown}, 1, 100+1, 0).(overviewFound)
	if found.figures["q002900"].Dead != 1 {
		t.Errorf("%+v", found.figures["q002900"])
	}
	b.grave = ""
	rows := b.expect(t, rowsLook{[]string{"q000001", "q000002", "none"}}, 0, 3+2, 0).(rowsFound)
	if len(rows.figures) != 2 {
		t.Errorf("%v", rows.figures)
	}
	items := b.expect(t, queueLook{queue: "q000001", tab: client.Ready, rows: shown}, 0, 2, 1).(queueFound)
	if len(items.listed) != shown || !items.more || b.limits[0] != shown+1 {
		t.Errorf("%d items, with limit %d", len(items.listed), b.limits[0])
	}
	b.expect(t, queueLook{queue: "q000001", tab: dead, rows: shown}, 0, 2, 0) // there are none
	b.expect(t, queueLook{queue: "none", tab: dead, rows: shown}, 0, 1, 0)

	b.extra = 500 // a bridge that sends more than it should
	found = b.expect(t, overviewLook{rows: shown}, 1, 2*shown, 0).(overviewFound)
	if len(found.names) != mostNames {
		t.Errorf("%d names", len(found.names))
	}
}

// After the first error nothing more is asked.
func TestLooksEndWithAnError(t *testing.T) {
	t.Parallel()
	b := newCounted(t, 1000)
	b.refused = 500
	if _, err := figures.InfosOf(t.Context(), b.client, b.names, new(figures.Unasked)); err == nil {
		t.Error("no error")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.asked["info"]; n > 2*figures.AsksAtOnce {
		t.Errorf("asked about %d queues, all of them refused", n)
	}
}
