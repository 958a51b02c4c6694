package clients_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// What any client of NATS can do with pqd is a table, testdata/clients/cases.json: requests, and what
// the client has to show of their answers. Each client runs the same table by a driver, which does
// single steps with its library and reports what the library showed.

const casesFile = "../testdata/clients/cases.json"

// clientCase is a session on a queue of its own.
type clientCase struct {
	Name  string
	Steps []clientStep
	// Except names the clients whose library gets in the way, and what is then seen.
	Except map[string]string
}

type clientStep struct {
	Do           string // what a driver can do
	Subject      string
	Headers      nats.Header
	Body, Base64 string
	Milliseconds int // how long the client waits for the answer; 0: as long as a test
	Answers      []expectedAnswer
	Meanwhile    *struct{ Subject, Body string } // published when the pop waits
	Left         *counts                         // instead of a step of the client: what the queue has
}

// expectedAnswer is an answer as a page would show it. What is nil is not looked at.
type expectedAnswer struct {
	Body, Base64, Reply *string
	Headers             nats.Header // expected values; none: the header is not there
	Stored              *stored
	Error               string
	Code                int
	ErrCode             int `json:"err_code"`
}

type stored struct {
	Stream    string
	Seq       uint64
	Duplicate bool
}

// shownAnswer is what a library shows of an answer.
type shownAnswer struct {
	Body, Reply string
	Headers     nats.Header
	Stored      *stored
	Error       string // none, "no responders", "timeout", "refused", or "other"
	Code        int    // of what was refused; 0: the library does not show it
	ErrCode     int
	Text        string // of an error
}

func (a shownAnswer) String() string {
	text, err := json.Marshal(a)
	return fmt.Sprint(string(text), " ", err)
}

// clientDriver does a step with the library of a client.
type clientDriver interface {
	do(t *testing.T, step clientStep, timeout time.Duration) []shownAnswer
	end(t *testing.T)
}

func clientCases(t *testing.T) (cases []clientCase) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(pqd.Read(t, casesFile)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cases); err != nil {
		t.Fatalf("%s: %v", casesFile, err)
	}
	return cases
}

// clientsOf are the columns of the table on the page about clients.
var clientsOf = []string{"go", "js", "python", "java", "rust", "c", "nats"}

// What the page says of each client is what the table of cases says.
func TestClientsPage(t *testing.T) {
	t.Parallel()
	page := pqd.Read(t, clientsPage)
	for _, c := range clientCases(t) {
		row := "| " + c.Name
		for _, client := range clientsOf {
			if _, is := c.Except[client]; is {
				row += " | no"
			} else {
				row += " | yes"
			}
		}
		if !strings.Contains(page, "\n"+row+" |\n") {
			t.Errorf("%s: expected the row\n%s |", clientsPage, row)
		}
		for client := range c.Except {
			if !slices.Contains(clientsOf, client) {
				t.Errorf("%s: %s: %s is none of %q", casesFile, c.Name, client, clientsOf)
			}
		}
	}
}

// runCases runs the table with one client.
func runCases(t *testing.T, client string, start func(t *testing.T, p *testenv.Process) clientDriver) {
	t.Helper()
	cases := clientCases(t)
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	driver := start(t, p)
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			err := (&caseRun{T: t, nc: nc, driver: driver, queue: fmt.Sprintf("c%d", i)}).run(c.Steps)
			expected, is := c.Except[client]
			switch {
			case !is && err != nil:
				t.Error(err)
			case is && err == nil:
				t.Errorf("it works, and %s says that it fails with %q", casesFile, expected)
			case is && !strings.Contains(err.Error(), expected):
				t.Errorf("it fails otherwise than %s says, with %q: %v", casesFile, expected, err)
			}
		})
	}
	driver.end(t)
	p.Stop(t)
}

// caseRun is one case with one client.
type caseRun struct {
	*testing.T
	nc     *nats.Conn // of the test
	driver clientDriver
	queue  string
	reply  string   // of the last item
	id     string   // of the last item
	acks   []string // of the last items
}

func (r *caseRun) run(steps []clientStep) error {
	for i, step := range steps {
		if err := r.step(step); err != nil {
			return fmt.Errorf("step %d, %s %s: %w", i, step.Do, step.Subject, err)
		}
	}
	return nil
}

func (r *caseRun) step(step clientStep) error {
	if step.Left != nil {
		if got := queueInfo(r.T, r.nc, r.queue); got != *step.Left {
			return fmt.Errorf("the queue has %+v, expected %+v", got, *step.Left)
		}
		return nil
	}
	step.Subject, step.Body = r.fill(step.Subject), r.fill(step.Body)
	if step.Base64 != "" {
		step.Body = decoded(r.T, step.Base64)
	}
	timeout := testenv.Patience
	if step.Milliseconds > 0 {
		timeout = time.Duration(step.Milliseconds) * time.Millisecond
	}
	done := make(chan struct{})
	if step.Meanwhile == nil {
		close(done)
	} else {
		go func() {
			defer close(done)
			r.pushToWaiter(r.fill(step.Meanwhile.Subject), step.Meanwhile.Body)
		}()
	}
	shown := r.driver.do(r.T, step, timeout)
	<-done
	if len(shown) != len(step.Answers) {
		return fmt.Errorf("the library shows %v: expected %d answers", shown, len(step.Answers))
	}
	for i, answer := range step.Answers {
		if err := r.compare(answer, shown[i]); err != nil {
			return fmt.Errorf("%w: the library shows %v", err, shown[i])
		}
		if shown[i].Reply != "" {
			r.reply = shown[i].Reply
		}
		if ids := shown[i].Headers["PQ-Id"]; len(ids) == 1 {
			r.id = ids[0]
		}
		if found := regexp.MustCompile(`(?m)^PQ-Ack: (\S+)`).FindAllStringSubmatch(shown[i].Body, -1); found != nil {
			r.acks = nil
			for _, ack := range found {
				r.acks = append(r.acks, ack[1])
			}
		}
	}
	switch step.Do {
	case "send", "respond", "ack", "nak", "term":
		if len(shown) == 0 {
			return r.settled()
		}
	}
	return nil
}

// fill puts in what earlier answers had.
func (r *caseRun) fill(text string) string {
	filled := []string{"$q", r.queue, "<reply>", r.reply, "<id>", r.id}
	for i, ack := range r.acks {
		filled = append(filled, fmt.Sprintf("<ack %d>", i+1), ack)
	}
	return strings.NewReplacer(filled...).Replace(text)
}

func (r *caseRun) compare(want expectedAnswer, got shownAnswer) error {
	if want.Error != got.Error {
		return fmt.Errorf("expected the error %q", want.Error)
	}
	if got.Code != 0 && got.Code != want.Code || want.ErrCode != got.ErrCode {
		return fmt.Errorf("expected the codes %d and %d", want.Code, want.ErrCode)
	}
	if want.Stored != nil {
		expected := *want.Stored
		expected.Stream = r.fill(expected.Stream)
		if got.Stored == nil || *got.Stored != expected {
			return fmt.Errorf("expected %+v", expected)
		}
	}
	if want.Base64 != nil && decoded(r.T, *want.Base64) != got.Body {
		return fmt.Errorf("expected a body of %s", *want.Base64)
	}
	// The nats command does not show whether a body ends in a line feed.
	if want.Body != nil && !testenv.Shown(r.fill(*want.Body)).MatchString(strings.TrimSuffix(strings.ReplaceAll(got.Body, "\r\n", "\n"), "\n")) {
		return fmt.Errorf("expected the body %q", r.fill(*want.Body))
	}
	if want.Reply != nil && !testenv.Shown(r.fill(*want.Reply)).MatchString(got.Reply) {
		return fmt.Errorf("expected the reply subject %q", r.fill(*want.Reply))
	}
	for _, name := range slices.Sorted(maps.Keys(want.Headers)) {
		values := want.Headers[name]
		same := slices.EqualFunc(values, got.Headers[name], func(want, got string) bool {
			return testenv.Shown(r.fill(want)).MatchString(got)
		})
		if !same {
			return fmt.Errorf("expected the header %s to be %q", name, values)
		}
	}
	return nil
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// settled looks whether a settlement without an answer took effect, by another one behind it.
func (r *caseRun) settled() error {
	for _, answer := range r.driver.do(r.T, clientStep{Do: "request", Subject: r.reply, Body: "+WPI"}, testenv.Patience) {
		if answer.Error == "" && answer.Headers.Get("Status") == "" {
			return errors.New("the settlement has no effect")
		}
	}
	return nil
}

// pushToWaiter pushes when a pop waits.
func (r *caseRun) pushToWaiter(subject, body string) {
	for late := time.Now().Add(testenv.Patience); time.Now().Before(late); {
		var info struct{ Waiting int }
		reply, err := r.nc.Request("pq."+r.queue+".info", nil, testenv.Patience)
		if err == nil {
			err = json.Unmarshal(reply.Data, &info)
		}
		if err != nil {
			r.Error(err)
			return
		}
		if info.Waiting > 0 {
			break
		}
	}
	if err := r.nc.Publish(subject, []byte(body)); err != nil {
		r.Error(err)
	}
}
