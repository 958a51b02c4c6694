package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/subjects"
)

// The types of settings. Their Decode methods say what was expected; the
// caller that reports the error adds the variable and its value.

// prefix is the beginning of the subjects.
type prefix string

func (p *prefix) Decode(value string) error {
	if _, err := subjects.New(value); err != nil {
		return err
	}
	*p = prefix(value)
	return nil
}

// siteName is checked together with the prefix behind it.
type siteName string

// replySubjects are patterns of subjects.
type replySubjects []string

func (r *replySubjects) Decode(value string) error {
	for pattern := range strings.SplitSeq(value, ",") {
		pattern = strings.TrimSpace(pattern)
		if err := subjects.CheckPattern(pattern); err != nil {
			return err
		}
		*r = append(*r, pattern)
	}
	return nil
}

// Address is an address to listen at; port 0 takes any that is free.
type Address struct {
	Host string
	Port int
}

func (a *Address) Decode(value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return errors.New("expected <host>:<port>, such as 127.0.0.1:4222")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return errors.New("expected a port from 0 to 65535 after the last colon")
	}
	*a = Address{Host: host, Port: int(number)}
	return nil
}

func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// Own is the URL of this address for callers on this machine.
func (a Address) Own(encrypted bool) (string, error) {
	if a.Port == 0 {
		return "", Usagef("PQ_HTTP=%s takes any port that is free: expected a port", a)
	}
	switch a.Host {
	case "", "0.0.0.0":
		a.Host = "127.0.0.1"
	case "::":
		a.Host = "::1"
	}
	return Scheme(encrypted) + a.String(), nil
}

// meets reports whether one process cannot listen on both.
func (a Address) meets(other Address) bool {
	all := func(a Address) bool { return a.Host == "" || net.ParseIP(a.Host).IsUnspecified() }
	return a.Port != 0 && a.Port == other.Port && (a.Host == other.Host || all(a) || all(other))
}

// ExistingFile is the path of a file that can be read.
type ExistingFile string

func (f *ExistingFile) Decode(value string) error {
	file, err := os.Open(value)
	if err != nil {
		return fmt.Errorf("expected a readable file: %w", errors.Unwrap(err))
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("expected a file, found a directory")
	}
	*f = ExistingFile(value)
	return nil
}

type logFormat string

func (f *logFormat) Decode(value string) error {
	if value != "text" && value != "json" {
		return errors.New("expected text or json")
	}
	*f = logFormat(value)
	return nil
}

type logLevel slog.Level

func (l *logLevel) Decode(value string) error {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(value, level.String()) {
			*l = logLevel(level)
			return nil
		}
	}
	return errors.New("expected debug, info, warn or error")
}

// byteCount is a number of bytes.
type byteCount int64

func (c *byteCount) Decode(value string) error {
	n, err := parseBytes(value)
	*c = byteCount(n)
	return err
}

// queueCount is how many queues have metrics of their own. Each costs some reads a scrape.
type queueCount int

const maxQueueCount = 10_000

func (c *queueCount) Decode(value string) error {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil || n > maxQueueCount {
		return fmt.Errorf("expected 0 to %d", maxQueueCount)
	}
	*c = queueCount(n)
	return nil
}

// Option is the bridge's option: there 0 means the default, and a negative number none.
func (c queueCount) Option() int {
	if c == 0 {
		return -1
	}
	return int(c)
}

// IsLoopback reports whether no other machine can reach the address.
func (a Address) IsLoopback() bool { return isLoopback(a.Host) }

// isLoopback reports whether no other machine can reach the host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// consoleMode says which requests the console and the HTTP interface serve.
type consoleMode string

const (
	ConsoleOff   consoleMode = "off"
	consoleRead  consoleMode = "read"
	ConsoleAdmin consoleMode = "admin"
)

func (m *consoleMode) Decode(value string) error {
	switch *m = consoleMode(value); *m {
	case ConsoleOff, consoleRead, ConsoleAdmin:
		return nil
	}
	return errors.New("expected off, read or admin")
}

// inboxPrefix is the first tokens of inboxes.
type inboxPrefix string

func (p *inboxPrefix) Decode(value string) error {
	if err := subjects.CheckPattern(value); err != nil || strings.ContainsAny(value, "*>") {
		return errors.New("expected tokens joined by dots, such as _INBOX.console")
	}
	*p = inboxPrefix(value)
	return nil
}

// Scheme is the scheme of the URLs of PQ_HTTP.
func Scheme(encrypted bool) string {
	if encrypted {
		return "https://"
	}
	return "http://"
}

// silence is how long two nodes must not have heard another one to take it for lost.
type silence time.Duration

const (
	leastSilence = 300 * time.Millisecond
	mostSilence  = 5 * time.Second
)

func (s *silence) Decode(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < leastSilence || d > mostSilence {
		return fmt.Errorf("expected a duration from %s to %s, such as 500ms", leastSilence, mostSilence)
	}
	*s = silence(d)
	return nil
}

// SocketName is the Unix socket in the directory of an embedded store. pqd backup sends its
// request there. Every user who may write to the directory may connect. There is no other
// permission, and no network port.
const SocketName = "pqd.sock"

// Socket is the socket at which pqd answers pqd backup and pqd recover. The socket of a copy lies beside the copy,
// because another copy may take its place.
func (s *Settings) Socket() string {
	if s.Shared() {
		return s.CopyDir() + ".sock"
	}
	return filepath.Join(s.Store.Place, SocketName)
}

// UsageError is a mistake in how pqd was called.
type UsageError struct{ error }

// Usagef is such an error.
func Usagef(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}

// BadPair says that two files are no certificate and its key.
func BadPair(certVariable string, cert ExistingFile, keyVariable string, key ExistingFile, err error) error {
	return Usagef("%s=%q and %s=%q: expected a certificate and its key: %w", certVariable, cert, keyVariable, key, err)
}
