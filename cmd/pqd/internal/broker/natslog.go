package broker

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// natsLog passes the server's log on. Its Fatalf only reports: the server returns after it.
type natsLog struct {
	log    *slog.Logger
	fatal  chan<- string
	login  bool         // serverOptions.login
	secret *otherSecret // nil without PQ_CLUSTER, and so is groups
	groups *DamagedGroups
}

func (l natsLog) Fatalf(format string, args ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default: // only the first reason counts
	}
}

// ofClient matches the beginning of lines about a connection of a client, which names its host.
var ofClient = regexp.MustCompile(`^((\S+?)(?::\d+)? - (?:cid|wid|mid\w*|lid\w*):\d+) - `)

// Errorf logs mistakes of clients as warnings: they are no errors of pqd, and no reason to
// wake an operator.
func (l natsLog) Errorf(format string, args ...any) { l.say(slog.LevelError, format, args) }
func (l natsLog) Warnf(format string, args ...any)  { l.say(slog.LevelWarn, format, args) }

// toRoute is the beginning of lines about a node that is away. The server logs them every second; the store logs
// the consequence of the absence.
const toRoute = "Error trying to connect to route (attempt "

// plainPasswords is the server's warning about a file with passwords. A password from a variable is in no file.
const plainPasswords = "Plaintext passwords detected"

func (l natsLog) say(level slog.Level, format string, args []any) {
	text := fmt.Sprintf(format, args...)
	if l.groups != nil {
		l.groups.reads(text)
	}
	if l.secret != nil && l.secret.reads(text) || strings.HasPrefix(text, toRoute) || l.login && strings.HasPrefix(text, plainPasswords) {
		level = slog.LevelDebug
	}
	if client := ofClient.FindStringSubmatch(text); client != nil {
		l.log.Warn("error of a NATS client", "host", strings.Trim(client[2], "[]"), "client", client[1], "error", text[len(client[0]):])
		return
	}
	l.log.Log(context.Background(), level, text)
}

func (l natsLog) Noticef(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l natsLog) Debugf(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }
func (l natsLog) Tracef(format string, args ...any)  { l.log.Debug(fmt.Sprintf(format, args...)) }
