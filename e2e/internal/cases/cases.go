// Package cases is a table of what any client of NATS can do with pqd, e2e/testdata/clients/cases.json: requests,
// and what the client has to show of their answers. Each client runs the same table by a driver,
// which does single steps with its library and reports what the library showed.
package cases

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

// Case is a session on a queue of its own.
type Case struct {
	Name  string
	Steps []Step
	// Except names the clients whose library gets in the way, and what is then seen.
	Except map[string]string
}

// Step is a request, or another thing that a client does.
type Step struct {
	Do           string // what a driver can do
	Subject      string
	Headers      nats.Header
	Body, Base64 string
	Milliseconds int // how long the client waits for the answer; 0: as long as a test
	Answers      []Expected
	Meanwhile    *struct{ Subject, Body string } // published when the pop waits
	Left         *Counts                         // instead of a step of the client: what the queue has
}

// Expected is an answer as a page would show it. What is nil is not looked at.
type Expected struct {
	Body, Base64, Reply *string
	Headers             nats.Header // expected values; none: the header is not there
	Stored              *Stored
	Error               string
	Code                int
	ErrCode             int `json:"err_code"`
}

// Stored is what a client shows of an acknowledged push.
type Stored struct {
	Stream    string
	Seq       uint64
	Duplicate bool
}

// Counts are how many items a queue has.
type Counts struct{ Ready, Leased, Delayed int }

// Answer is what a library shows of an answer.
type Answer struct {
	Body, Reply string
	Headers     nats.Header
	Stored      *Stored
	Error       string // none, "no responders", "timeout", "refused", or "other"
	Code        int    // of what was refused; 0: the library does not show it
	ErrCode     int
	Text        string // of an error
}

func (a Answer) String() string {
	text, err := json.Marshal(a)
	return fmt.Sprint(string(text), " ", err)
}

// Driver does a step with the library of a client.
type Driver interface {
	Do(t *testing.T, step Step, timeout time.Duration) []Answer
	End(t *testing.T)
}

// File has the table. The tests of a folder in e2e read it.
const File = "../testdata/clients/cases.json"

// Read reads the table, or one of an earlier release.
func Read(t *testing.T, file string) (cases []Case) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(pqd.Read(t, file)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return cases
}

// Run runs the table in a file with one client, which has this prefix. The connection is the test's own, where the
// same prefix leads to the same queues. The name tells these queues from those of other runs.
func Run(t *testing.T, file, client, prefix, name string, nc *nats.Conn, driver Driver) {
	t.Helper()
	for i, c := range Read(t, file) {
		t.Run(c.Name, func(t *testing.T) {
			err := (&caseRun{T: t, nc: nc, driver: driver, prefix: prefix, queue: fmt.Sprintf("%s%d", name, i)}).run(c.Steps)
			expected, is := c.Except[client]
			switch {
			case !is && err != nil:
				t.Error(err)
			case is && err == nil:
				t.Errorf("it works, and %s says that it fails with %q", file, expected)
			case is && !strings.Contains(err.Error(), expected):
				t.Errorf("it fails otherwise than %s says, with %q: %v", file, expected, err)
			}
		})
	}
	driver.End(t)
}

// caseRun is one case with one client.
type caseRun struct {
	*testing.T
	nc     *nats.Conn // of the test
	driver Driver
	prefix string
	queue  string
	reply  string   // of the last item
	id     string   // of the last item
	acks   []string // of the last items
}

func (r *caseRun) run(steps []Step) error {
	for i, step := range steps {
		if err := r.step(step); err != nil {
			return fmt.Errorf("step %d, %s %s: %w", i, step.Do, step.Subject, err)
		}
	}
	return nil
}

func (r *caseRun) step(step Step) error {
	if step.Left != nil {
		if got := r.counts(); got != *step.Left {
			return fmt.Errorf("the queue has %+v, expected %+v", got, *step.Left)
		}
		return nil
	}
	step.Subject, step.Body = r.fill(step.Subject), r.fill(step.Body)
	if step.Base64 != "" {
		step.Body = decoded(r.T, step.Base64)
	}
	timeout := testenv.Patience()
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
	shown := r.driver.Do(r.T, step, timeout)
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
	filled := []string{"pq.$q", r.prefix + "." + r.queue, "$q", r.queue, "<reply>", r.reply, "<id>", r.id}
	for i, ack := range r.acks {
		filled = append(filled, fmt.Sprintf("<ack %d>", i+1), ack)
	}
	return strings.NewReplacer(filled...).Replace(text)
}

func (r *caseRun) compare(want Expected, got Answer) error {
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
	// To another account the server gives a reply subject of its own, which leads to the same.
	if want.Reply != nil && !strings.HasPrefix(got.Reply, "_R_.") && !testenv.Shown(r.fill(*want.Reply)).MatchString(got.Reply) {
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
	for _, answer := range r.driver.Do(r.T, Step{Do: "request", Subject: r.reply, Body: "+WPI"}, testenv.Patience()) {
		if answer.Error == "" && answer.Headers.Get("Status") == "" {
			return errors.New("the settlement has no effect")
		}
	}
	return nil
}

// counts are those of the queue.
func (r *caseRun) counts() (c Counts) {
	r.Helper()
	reply, err := r.nc.Request(r.prefix+"."+r.queue+".info", nil, testenv.Patience())
	if err == nil {
		err = json.Unmarshal(reply.Data, &c)
	}
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// pushToWaiter pushes when a pop waits.
func (r *caseRun) pushToWaiter(subject, body string) {
	for late := testenv.BeginWait(); !late.Over(); {
		var info struct{ Waiting int }
		reply, err := r.nc.Request(r.prefix+"."+r.queue+".info", nil, testenv.Patience())
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
