package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
)

// Who writes to a pipe waits for nobody as long as it has room, and then until
// there is some again. What was written arrives in order, all of it.
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
		write(100)          // nobody reads
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
			t.Error("a full pipe took more")
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

// A pipe that nothing was written to any more is not left behind: the dialer
// closes it before it makes the next one.
func TestPipeDialer(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	d := &pipeDialer{server: srv}
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

// When the server does not read any more, a pipe that was closed is closed soon;
// when it has closed its end, nobody waits for it.
func TestPipeToNobody(t *testing.T) {
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
