package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// wire is a connection on which lines and blocks of bytes come and go. The
// clients of Redis and beanstalkd are made of it: they do less than a library
// does, so they take less of the processors from the server that is measured.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dial(addr string) (*wire, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}, nil
}

// send sends what was put into out.
func (w *wire) send() error {
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	return err
}

// line reads a line without its end. It stands until the next read.
func (w *wire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("expected a line that ends in CR LF, found %q", line)
	}
	return line[:len(line)-2], nil
}

// skip passes over a block of n bytes and the end of line behind it.
func (w *wire) skip(n int) error {
	_, err := w.in.Discard(n + 2)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (w *wire) text(s string) { w.out = append(w.out, s...) }

func (w *wire) bytes(b []byte) { w.out = append(w.out, b...) }

func (w *wire) number(n int) { w.out = strconv.AppendInt(w.out, int64(n), 10) }

func (w *wire) close() error { return w.conn.Close() }
