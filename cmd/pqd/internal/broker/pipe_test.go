package broker

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// A write to a pipe returns at once while the pipe has room, and otherwise waits for
// room. All bytes arrive in order.
func TestPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := newPipe(ours)
		var want []byte
		write := func(n int) {
			b := bytes.Repeat([]byte{byte(len(want))}, n)
			want = append(want, b...)
			if got, err := p.Write(b); got != n || err != nil {
				t.Errorf("write of %d bytes: %d, %v", n, got, err)
			}
		}
		write(100)          // without a reader
		synctest.Wait()     // on its way
		write(2 * pipeRoom) // it holds nothing else
		done := make(chan struct{})
		go func() {
			defer close(done)
			write(1)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("a full pipe accepted more")
		default:
		}
		got := make([]byte, 100)
		if _, err := io.ReadFull(theirs, got); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		rest, err := io.ReadAll(theirs)
		if err != nil {
			t.Error(err)
		}
		if got = append(got, rest...); !bytes.Equal(got, want) {
			t.Errorf("read %d bytes, expected the %d that were written", len(got), len(want))
		}
		if _, err := p.Write(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write to a closed pipe: %v", err)
		}
		if err := p.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// The dialer closes the pipe of an ended connection before it makes the next one.
func TestPipeDialer(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	d := newPipeDialer(srv)
	first, err := d.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write([]byte("PING\r\n")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write to the one before: %v", err)
	}
	if _, err := second.Write([]byte("PING\r\n")); err != nil {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// A pipe whose server end does not read is closed within a bounded time; one whose server
// end is closed is closed at once.
func TestPipeWithoutReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		p := newPipe(ours)
		for range 2 {
			if _, err := p.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Read(make([]byte, 1)); err == nil { // returns when all is over
			t.Error("there was something to read")
		}
		if err := theirs.Close(); err != nil {
			t.Error(err)
		}

		ours, theirs = net.Pipe()
		p = newPipe(ours)
		if err := theirs.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Write(make([]byte, 2*pipeRoom)); err != nil {
			t.Fatal(err) // it has room, and learns only now
		}
		if _, err := p.Write([]byte("hello")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write to a pipe that the server has closed: %v", err)
		}
	})
}

// slowReader is a connection that reads nothing while the server holds messages of size bytes
// for it, nearly as many as it may.
type slowReader struct {
	*testing.T
	lines   *bufio.Reader
	publish func(count int)
}

const size, room = 100_000, 16

func readSlowly(t *testing.T, dial func(*server.Server) *pipeDialer) (slowReader, *pipeDialer) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, WriteDeadline: testenv.Most, MaxPending: room * size})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	dialer := dial(srv)
	conn, err := dialer.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB large 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r := slowReader{T: t, lines: bufio.NewReader(conn), publish: func(count int) {
		t.Helper()
		for range count {
			if err := nc.Publish("large", make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.FlushTimeout(testenv.Patience()); err != nil {
			t.Fatal(err)
		}
	}}
	r.next("PONG")
	return r, dialer
}

// next reads on to the next line with one of the prefixes.
func (r slowReader) next(prefixes ...string) string {
	r.Helper()
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			r.Fatalf("%v, expected %q", err, prefixes)
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(line, prefix) {
				return prefix
			}
		}
	}
}

// whole reads messages, and returns how many have their content.
func (r slowReader) whole(count int) (whole int) {
	r.Helper()
	full := fmt.Sprintf("MSG large 1 %d\r\n", size)
	empty := fmt.Sprintf("HMSG large 1 %[1]d %[1]d\r\n", len(bridge.TooManyBytes))
	for range count {
		if r.next(full, empty) == full {
			whole++
		}
	}
	return whole
}

// The server does not cut off a bridge that reads too slowly for what clients push: what
// it holds too much of arrives without its content, to be refused.
func TestPipeUnderPressure(t *testing.T) {
	t.Parallel()
	r, dialer := readSlowly(t, newBridgePipeDialer)
	r.publish(1)
	if r.whole(1) == 0 || dialer.shed.Load() != nil {
		t.Error("a single message is too much for the bridge")
	}
	r.publish(room - 2)
	if kept := r.whole(room - 2); kept > room/2 {
		t.Errorf("%d messages of %d arrived whole", kept, room-2)
	}
	if dialer.shed.Load() == nil {
		t.Error("nobody can know that the bridge sheds")
	}
	select {
	case <-dialer.backlog:
	default:
		t.Error("the bridge does not hear that the server holds far too much")
	}
	r.publish(1)
	if r.whole(1) == 0 {
		t.Error("a message after the others was left out")
	}
	if len(dialer.backlog) > 0 {
		t.Error("the bridge hears of a backlog that has gone")
	}
}

// Entries of the log, messages of a stream and answers to the console arrive whole, however
// far behind pqd is.
func TestPipeUnderPressureOfNoRequests(t *testing.T) {
	t.Parallel()
	r, _ := readSlowly(t, newPipeDialer)
	r.publish(room - 2)
	if kept := r.whole(room - 2); kept != room-2 {
		t.Errorf("%d messages of %d arrived whole", kept, room-2)
	}
}

// The bridge counts as shedding for some heartbeats behind each message that it refused unread.
func TestBridgeShedsForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := new(pipeDialer)
		if d.sheds() {
			t.Error("it sheds, and has refused nothing")
		}
		for range 2 {
			d.noteShed()
			<-time.After(200 * time.Millisecond)
			if !d.sheds() {
				t.Error("the other nodes may not hear that it sheds")
			}
		}
		if <-time.After(time.Second); d.sheds() {
			t.Error("it sheds a second behind the last message that it refused unread")
		}
	})
}

// Whatever byte a client puts into a subject and a reply subject, it reaches the bridge as a part of them, but for spaces, which end
// them, and a carriage return: the message is left out, because nats.go would end the connection.
func TestOddSubjectsOnThePipe(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	nc, err := nats.Connect("", nats.InProcessServer(newBridgePipeDialer(srv)), nats.NoReconnect(), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("pq.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	client, err := srv.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	sent := new(strings.Builder)
	sent.WriteString("CONNECT {\"verbose\":false}\r\n")
	var want []string
	for b := 1; b < 256; b++ {
		if b == ' ' || b == '\t' || b == '\n' {
			continue
		}
		subject, reply := "pq.a"+string([]byte{byte(b)})+"z", "_INBOX."+string([]byte{byte(b)})
		fmt.Fprintf(sent, "PUB %s 1\r\nx\r\nPUB pq.jobs.push %s 1\r\nx\r\n", subject, reply)
		if b != '\r' {
			want = append(want, subject+" ", "pq.jobs.push "+reply)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, client) }()
	if _, err := io.WriteString(client, sent.String()); err != nil {
		t.Fatal(err)
	}
	for _, expected := range want {
		m, err := sub.NextMsg(testenv.Patience())
		if err != nil {
			t.Fatalf("%v (%v), expected %q", err, nc.LastError(), expected)
		}
		if got := m.Subject + " " + m.Reply; got != expected {
			t.Fatalf("%q, expected %q", got, expected)
		}
	}
}
