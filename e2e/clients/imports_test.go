package clients_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/testenv"
)

// Jobs of other systems, which pq import reads there. Each system is the real one.

// foreignJobs is how many plain jobs the other system has.
func foreignJobs() int { return max(*pqd.Ops, 1500) }

// startRedis starts a Redis for the test, and returns its port.
func startRedis(t *testing.T) string {
	t.Helper()
	path, err := tools.Find("redis-server")
	if err != nil {
		t.Skip("NOT TESTED: IMPORTS FROM REDIS: there is no redis-server")
	}
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test kills it
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() {
				for lines.Scan() {
				}
			}()
			return port
		}
	}
	t.Fatal("Redis did not start")
	return ""
}

// freePort returns a port for a program that cannot choose one itself.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// imported is a queue into which a test imports.
type imported struct {
	*testing.T
	process *testenv.Process
	queue   *client.Queue
	args    []string // of pq import, behind the queue's name
}

func importInto(t *testing.T, p *testenv.Process, queue string, args ...string) *imported {
	t.Helper()
	c, err := client.New(p.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	return &imported{t, p, c.Queue(queue), append([]string{"import", queue}, args...)}
}

// run runs pq and returns its exit code and what it says.
func (i *imported) run(more ...string) (code int, said string) {
	i.Helper()
	out, err := i.process.Command(i.T, "env", slices.Concat([]string{"pq"}, i.args, more)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), string(out)
	} else if err != nil {
		i.Fatal(err)
	}
	return 0, string(out)
}

// done runs an import that succeeds.
func (i *imported) done(said string, more ...string) {
	i.Helper()
	if code, out := i.run(more...); code != 0 || !strings.Contains(out, said) {
		i.Fatalf("pq %v: exit code %d, %q; expected %q", slices.Concat(i.args, more), code, out, said)
	}
}

// killed kills an import when the queue has so many items. It is over before, or it ends.
func (i *imported) killed(items int) {
	i.Helper()
	cmd := i.process.Command(i.T, "env", append([]string{"pq"}, i.args...)...)
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed, or at its end
		close(ended)
	}()
	testenv.Await(i.T, fmt.Sprintf("%d items are imported", items), func() bool {
		info, err := i.queue.Info(i.Context())
		select {
		case <-ended:
			return true
		default:
			return err == nil && int(info.Ready+info.Delayed) >= items
		}
	})
	_ = cmd.Process.Kill()
	<-ended
}

// killedOften kills imports of n items on their way.
func (i *imported) killedOften(n int) {
	i.Helper()
	kills := max(*pqd.Kills, 2)
	for kill := range kills {
		i.killed(n * (kill + 1) / (kills + 2))
	}
}

// everything pops all items, and returns their payloads in order.
func (i *imported) everything() (payloads []string) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), testenv.Most)
	defer cancel()
	for {
		items, err := i.queue.PopBatch(ctx, client.Min, 500)
		if err != nil {
			return payloads
		}
		for _, item := range items {
			payloads = append(payloads, string(item.Payload))
		}
	}
}

// expect compares what came with what was sent, of which most are plain.
func (i *imported) expect(found, expected []string) {
	i.Helper()
	if slices.Equal(found, expected) {
		return
	}
	for n := range min(len(found), len(expected)) {
		if found[n] != expected[n] {
			i.Fatalf("%d items; number %d is %s, expected %s of %d", len(found), n, found[n], expected[n], len(expected))
		}
	}
	i.Fatalf("%d items, expected %d", len(found), len(expected))
}

// The jobs of BullMQ come over in their order, with priorities, delays and attempts, each once, also
// if the import is killed and begun again.
func TestImportFromBullMQ(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	port, p, n := startRedis(t), testenv.Daemon(t), foreignJobs()
	cmd := p.Command(t, node.Path, filepath.Join(node.Packages, "../bullmq.mjs"), port, strconv.Itoa(n))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	address := "redis://127.0.0.1:" + port
	emails := importInto(t, p, "emails", "--from", "bullmq:emails", "--redis", address)
	emails.killedOften(n)
	emails.done("that the queue had already", "--resume")
	emails.done("imported 0 items")
	first, err := emails.queue.Peek(t.Context(), client.Min)
	if err != nil || first.Header.Get("BullMQ-Name") != "first of all" || first.Header.Get("BullMQ-Id") != "an id of its own" {
		t.Errorf("the first item has %v: %v", first, err)
	}
	if info, err := emails.queue.Info(t.Context()); err != nil || info.Delayed != 1 || info.Paused {
		t.Errorf("the queue has %+v: %v", info, err)
	}
	expected := []string{`{"n":"first"}`}
	for k := range n {
		expected = append(expected, fmt.Sprintf(`{"n":%d}`, k))
	}
	emails.expect(emails.everything(), append(expected, `{"n":"high"}`, `{"n":"low"}`))

	failing := importInto(t, p, "failing", "--from", "bullmq:failing", "--redis", address)
	if code, said := failing.run(); code != 1 || !strings.Contains(said, "hold 1 job: stop them") {
		t.Errorf("workers hold a job: exit code %d, %q", code, said)
	}
	failing.done("left behind: 1 have failed: --failed imports them as dead letters\nleft behind: 1 are completed\n", "--held")
	delayed := 0
	for item, err := range failing.queue.List(t.Context(), client.ListOptions{State: client.Delayed, Attempts: true}) {
		if err != nil || item.Deliveries != 1 || time.Until(item.Due) < 50*time.Minute {
			t.Errorf("delayed is %+v: %v", item, err)
		}
		if last := item.LastAttempts; len(last) != 1 || last[0].Reason != "no route to bob" {
			t.Errorf("its attempts are %+v", last)
		}
		delayed++
	}
	if delayed != 1 {
		t.Errorf("%d items are delayed, expected one", delayed)
	}
	failing.expect(failing.everything(), []string{`{"to":"eve"}`})
	failing.done("imported 1 item", "--failed")
	dead, err := importInto(t, p, "failing-dead").queue.Peek(t.Context(), client.Min)
	if err != nil || dead.Dead == nil || dead.Dead.Reason != "no route to ann" || dead.Dead.Origin != "failing" || dead.Dead.Deliveries != 1 {
		t.Errorf("the dead letter is %+v: %v", dead, err)
	}
	if code, said := importInto(t, p, "x", "--from", "bullmq:emals", "--redis", address).run(); code != 1 || !strings.Contains(said, "expected the name of a queue") {
		t.Errorf("a queue that BullMQ does not have: exit code %d, %q", code, said)
	}
	p.Stop(t)
}

// The tasks of Celery on Redis come over, and workers on pqd run each once.
func TestImportFromCelery(t *testing.T) {
	nightly.Only(t, "TestImportFromStream has the ways of an import")
	t.Parallel()
	py := needPython(t, "celery", "redis")
	port, p, n := startRedis(t), testenv.Daemon(t), max(*pqd.Ops, 300)
	_, natsPort, err := net.SplitHostPort(strings.TrimPrefix(p.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	program := absolute(t, "../testdata/python/celery_redis.py")
	if out, err := py.command(t, program, port, natsPort, "send", strconv.Itoa(n)).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	i := importInto(t, p, "celery", "--from", "celery:celery", "--redis", "redis://127.0.0.1:"+port)
	if code, said := i.run(); code != 1 || !strings.Contains(said, "hold 1 job") {
		t.Errorf("a worker holds a task: exit code %d, %q", code, said)
	}
	i.args = append(i.args, "--held")
	i.killedOften(n)
	i.done("that the queue had already", "--resume")
	if info, err := i.queue.Info(t.Context()); err != nil || info.Delayed != 1 {
		t.Errorf("the queue has %+v: %v", info, err)
	}
	worker := py.command(t, program, port, natsPort, "work")
	worker.Env = append(worker.Env, "C_FORCE_ROOT=1")
	output, err := worker.StdoutPipe()
	if err == nil {
		err = worker.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(output); len(said) < n+2 && lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "said "); is {
			said = append(said, text)
		}
	}
	expected := []string{"held"}
	for k := range n {
		expected = append(expected, fmt.Sprintf("plain %d", k))
	}
	i.expect(said, append(expected, "low"))
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // however it ends: it has said what it did
	p.Stop(t)
}

// The messages of a work queue of JetStream come over in order, with what is taken from their headers
// and subjects.
func TestImportFromStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, dir })
	p, n := testenv.Daemon(t, "NATS_URL="+srv.URL()), foreignJobs()
	js, err := jetstream.New(srv.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ORDERS", Subjects: []string{"orders.>"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage, AllowMsgTTL: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var expected []string
	for k := range n {
		m := nats.NewMsg(fmt.Sprintf("orders.c%d", k%3))
		m.Data = fmt.Appendf(nil, "order %d", k)
		m.Header.Set("Urgency", strconv.Itoa(k/(n/2)))
		m.Header.Set("Nats-Msg-Id", strconv.Itoa(k))
		m.Header.Set("PQ-Unique", "of another system")
		if _, err := js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
		if k >= 10 && k/500 != 1 {
			expected = append(expected, string(m.Data))
		}
	}
	<-js.PublishAsyncComplete()
	m := nats.NewMsg("orders.short")
	m.Header.Set("Nats-TTL", "1h")
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// Gaps: at the beginning, and a wide one.
	for k := range n {
		if k < 10 || k/500 == 1 {
			if err := stream.DeleteMsg(t.Context(), uint64(k+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	consumer, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	held, err := consumer.Next(jetstream.FetchMaxWait(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	i := importInto(t, p, "orders", "--from", "jetstream:ORDERS", "--priority", "header:Urgency", "--key", "token:2")
	if code, said := i.run(); code != 1 || !strings.Contains(said, "hold 1 job") {
		t.Errorf("a worker holds a message: exit code %d, %q", code, said)
	}
	if err := held.Nak(); err != nil {
		t.Fatal(err)
	}
	i.args = append(i.args, "--held")
	i.killedOften(len(expected))
	i.done("that the queue had already", "--resume")
	last, err := i.queue.Peek(t.Context(), client.Max)
	if err != nil || last.Priority != 1 || last.Key != fmt.Sprintf("c%d", (n-1)%3) || len(last.Header) != 1 {
		t.Errorf("the last item is %+v: %v", last, err)
	}
	if got, err := i.queue.Get(t.Context(), last.ID); err != nil || !strings.HasPrefix(got.Unique, "jetstream:ORDERS:") || got.Pushed.IsZero() {
		t.Errorf("the last item is %+v: %v", got, err)
	}
	found := i.everything()
	short := slices.Index(found, "")
	if short < 0 {
		t.Fatal("the message with a TTL is missing")
	}
	i.expect(slices.Delete(found, short, short+1), expected)
	if info, err := stream.Info(t.Context()); err != nil || int(info.State.Msgs) != len(expected)+1 {
		t.Errorf("the stream has %+v: %v", info, err)
	}
	p.Stop(t)
}

// A job that does not fit keeps no other out, wherever it stands: it goes into a file with the reason, and comes when that is mended.
func TestImportWithMisfits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, dir })
	p := testenv.Daemon(t, "NATS_URL="+srv.URL())
	js, err := jetstream.New(srv.Connect(t))
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, Storage: jetstream.MemoryStorage})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ body, customer, urgency string }{
		{"long", strings.Repeat("k", 200), "1"}, {"a", "ann", "1"}, {"strange", "bob", "high"}, {"b", "bob", "1"},
	} {
		message := nats.NewMsg("orders")
		message.Data = []byte(m.body)
		message.Header.Set("Cust", m.customer)
		message.Header.Set("Urgency", m.urgency)
		if _, err := js.PublishMsg(t.Context(), message); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "rejected.jsonl")
	i := importInto(t, p, "jobs", "--from", "jetstream:ORDERS", "--key", "header:Cust", "--priority", "header:Urgency", "--rejected", file)
	for _, imported := range []string{"imported 2 items", "imported 0 items"} {
		code, said := i.run()
		if code != 5 || !strings.Contains(said, imported) || !strings.Contains(said, "rejected 2 jobs, which "+file+" has") {
			t.Errorf("exit code %d, %q; expected 5 and %s", code, said, imported)
		}
		lines := strings.Split(strings.TrimSpace(pqd.Read(t, file)), "\n")
		slices.Sort(lines)
		if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"job":"message 1 on orders","error":`) || !strings.Contains(lines[0], `"payload":"long"`) || !strings.Contains(lines[1], `expected an integer`) {
			t.Errorf("the file has %q", lines)
		}
	}
	if info, err := i.queue.Info(t.Context()); err != nil || info.Paused {
		t.Errorf("the queue has %+v: %v", info, err)
	}
	pqd.Write(t, file, strings.ReplaceAll(pqd.Read(t, file), strings.Repeat("k", 200), "key"))
	importInto(t, p, "jobs", "--file", file).done("imported 2 items")
	found := i.everything()
	slices.Sort(found)
	i.expect(found, []string{"a", "b", "long", "strange"})
	p.Stop(t)
}

// Jobs that do not fit keep no other out of an import that is killed again and again: each of the others is there once, and
// the file of the import that came to its end has all that do not fit.
func TestImportFromStreamWithMisfits(t *testing.T) {
	nightly.Only(t, "TestImportWithMisfits and TestImportFromStream have its parts")
	t.Parallel()
	dir := t.TempDir()
	srv := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, dir })
	p, n := testenv.Daemon(t, "NATS_URL="+srv.URL()), foreignJobs()
	js, err := jetstream.New(srv.Connect(t))
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, Storage: jetstream.MemoryStorage})
	}
	if err != nil {
		t.Fatal(err)
	}
	var expected, misfits []string
	for k := range n {
		m := nats.NewMsg("orders")
		m.Data = fmt.Appendf(nil, "order %d", k)
		// The first one and the last one are among those that do not fit, each for one of two reasons.
		switch {
		case k%200 == 0:
			m.Header.Set("Cust", strings.Repeat("k", 200))
		case k%200 == 99 || k == n-1:
			m.Header.Set("Urgency", "high")
		}
		if len(m.Header) == 0 {
			m.Header.Set("Cust", fmt.Sprint("c", k%7))
			expected = append(expected, string(m.Data))
		} else {
			misfits = append(misfits, string(m.Data))
		}
		if _, err := js.PublishMsgAsync(m); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	file := filepath.Join(dir, "rejected.jsonl")
	i := importInto(t, p, "jobs", "--from", "jetstream:ORDERS", "--key", "header:Cust", "--priority", "header:Urgency", "--rejected", file)
	i.killedOften(len(expected))
	if info, err := i.queue.Info(t.Context()); err != nil || !info.Paused {
		t.Errorf("before the end the queue has %+v: %v", info, err)
	}
	code, said := i.run("--resume")
	if code != 5 || !strings.Contains(said, " jobs, which "+file+" has") || !strings.Contains(said, "that the queue had already") {
		t.Errorf("exit code %d, %q; expected 5 and where those are that do not fit", code, said)
	}
	var found []string
	for line := range strings.Lines(pqd.Read(t, file)) {
		var rejected struct{ Error, Payload string }
		if err := json.Unmarshal([]byte(line), &rejected); err != nil || rejected.Error == "" {
			t.Fatalf("%q: %v", line, err)
		}
		found = append(found, rejected.Payload)
	}
	slices.Sort(found)
	slices.Sort(misfits)
	i.expect(found, misfits)
	i.expect(i.everything(), expected)
	t.Logf("%d jobs, of which %d do not fit", n, len(misfits))
	p.Stop(t)
}

// What pq import says of wrong arguments.
func TestImportFromNowhere(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--from", "kafka:orders"}, "expected bullmq:<queue>, celery:<queue> or jetstream:<stream>"},
		{[]string{"--from", "celery:celery", "--failed"}, "celery keeps no jobs that have failed"},
		{[]string{"--from", "bullmq:emails", "--key", "header:K"}, "streams alone"},
		{[]string{"--from", "jetstream:ORDERS", "--priority", "token:x"}, "expected token:<number>"},
		{[]string{"--held"}, "expected --from, too"},
		{[]string{"--from", "bullmq:emails", "--as-new"}, "without --file"},
		{[]string{"--from", "bullmq:emails", "--redis", "127.0.0.1"}, "expected redis://"},
	} {
		if code, said := importInto(t, p, "jobs", c.args...).run(); code != 2 || !strings.Contains(said, c.said) {
			t.Errorf("pq import jobs %v: exit code %d, %q; expected %q", c.args, code, said, c.said)
		}
	}
	if code, said := importInto(t, p, "jobs", "--from", "jetstream:ORDERS").run(); code == 0 || !strings.Contains(said, `stream "ORDERS"`) {
		t.Errorf("without JetStream: exit code %d, %q", code, said)
	}
	p.Stop(t)
}

// Two files of own lines are two imports, also within the window of message ids.
func TestImportOfTwoFiles(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	i := importInto(t, p, "jobs")
	for _, file := range []string{`{"payload":"a"}`, `{"payload":"b"}`, `{"payload":"b"}`, `{"payload":"a"}` + "\n" + `{"payload":"b"}`} {
		cmd := p.Command(t, "env", append([]string{"pq"}, i.args...)...)
		cmd.Stdin = strings.NewReader(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	// The third file is the second one again, and the first line of the fourth one is the first file.
	i.expect(i.everything(), []string{"a", "b", "b"})
	p.Stop(t)
}
