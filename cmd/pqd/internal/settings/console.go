package settings

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Mode is the mode of PQ_CONSOLE, or a safe one if it is not set.
func (s *Settings) Mode() consoleMode {
	open := s.HTTP.IsLoopback() && s.NATS.URL == "" && s.NATSConfig == ""
	switch {
	case s.Console != "":
		return s.Console
	case open && s.alone():
		return ConsoleAdmin
	case open, s.Token != "", s.OwnLogin():
		return consoleRead
	}
	return ConsoleOff
}

// alone reports whether every program of the machine, and none beyond it, may change all queues over the embedded NATS
// server. Over HTTP it can then do what it can do anyway. An operator who tells callers apart, by a token or as tenants,
// or names hosts that a proxy passes on, has said that not all of them are alike.
func (s *Settings) alone() bool {
	return s.Listen.IsLoopback() && !s.OwnLogin() && s.Token == "" && s.Tenants == "" && len(s.Cluster) == 0 && len(s.HTTPHosts) == 0
}

// ChangesNear reports whether the HTTP interface changes queues by default: for programs that call it on this machine, and
// for no others.
func (s *Settings) ChangesNear() bool { return s.Console == "" && s.Mode() == ConsoleAdmin }

// tokenPassword is the password that serves as the token of the HTTP interface, and the variable that has it.
// Callers get the rights of its user: anybody who knows the password has these rights over NATS anyway.
func (s *Settings) tokenPassword() (variable, password string) {
	switch {
	case s.Token != "", s.HTTP.IsLoopback() && !s.OwnLogin():
		return "", ""
	case s.WebUser != "":
		return "PQ_CONSOLE_PASSWORD", s.WebPass
	case s.WebCreds == "":
		return "NATS_PASSWORD", s.NATS.Password
	}
	return "", ""
}

// WebToken is the token that callers of the HTTP interface show, "" if none, and the setting that has it.
func (s *Settings) WebToken() (token, in string, err error) {
	if s.Token != "" {
		token, err = secretIn("PQ_CONSOLE_TOKEN", s.Token)
		return token, "the line in the file PQ_CONSOLE_TOKEN", err
	}
	variable, password := s.tokenPassword()
	if password != "" && len(password) < MinSecret {
		return "", "", Usagef("without PQ_CONSOLE_TOKEN, %s is the token of the HTTP interface: expected at least %d characters", variable, MinSecret)
	}
	return password, "the password in " + variable, nil
}

// checkConsole finds settings of the console that are missing or contradict each other.
func (s *Settings) checkConsole() error {
	own := s.among("PQ_CONSOLE_TOKEN", "PQ_CONSOLE_CREDS", "PQ_CONSOLE_USER", "PQ_CONSOLE_PASSWORD", "PQ_CONSOLE_INBOX")
	_, password := s.tokenPassword()
	switch {
	case s.Mode() == ConsoleOff && len(own) > 0:
		return Usagef("%s is set, but the console is off: expected PQ_CONSOLE=read or PQ_CONSOLE=admin", own[0])
	case s.Mode() == ConsoleOff:
		return nil
	case s.Token == "" && password == "" && !s.HTTP.IsLoopback() && !s.Unprotected.Accepts(doorHTTP):
		return Usagef("PQ_CONSOLE=%s, and other machines reach PQ_HTTP=%s: expected PQ_CONSOLE_TOKEN, a file with the token that users show, NATS_USER and NATS_PASSWORD, whose password is the token then, a loopback address, or PQ_UNPROTECTED=%s if everybody there may do that",
			s.Console, s.HTTP, doorHTTP)
	case s.set["PQ_CONSOLE_USER"] != s.set["PQ_CONSOLE_PASSWORD"]:
		return Usagef("%s is set alone: expected PQ_CONSOLE_USER and PQ_CONSOLE_PASSWORD together", s.among("PQ_CONSOLE_USER", "PQ_CONSOLE_PASSWORD")[0])
	case s.WebCreds != "" && s.WebUser != "":
		return Usagef("PQ_CONSOLE_CREDS and PQ_CONSOLE_USER are set: expected one way to log in")
	case (s.WebCreds != "" || s.WebUser != "") && s.NATS.URL == "" && s.NATSConfig == "":
		return Usagef("%s is set, but the embedded NATS server asks for no login: expected NATS_URL, or PQ_NATS_CONFIG with users", s.among("PQ_CONSOLE_CREDS", "PQ_CONSOLE_USER")[0])
	}
	return nil
}

// doors are values of PQ_UNPROTECTED.
type doors []string

const (
	DoorNATS = "nats" // the embedded NATS server
	doorHTTP = "http" // the HTTP interface and the console
	DoorLog  = "log"  // the log of PQ_STORE=jetstream:<name>, to clients of its NATS servers
)

func (d *doors) Decode(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains([]string{DoorNATS, doorHTTP, DoorLog}, name) {
			return fmt.Errorf("found %q: expected nats, http or log, separated by commas", name)
		}
		*d = append(*d, name)
	}
	return nil
}

// Accepts reports whether the operator has named an open door.
func (d doors) Accepts(door string) bool { return slices.Contains(d, door) }

// Warn logs the open doors at each start.
func (d doors) Warn(log *slog.Logger) {
	for _, door := range d {
		log.Warn("PQ_UNPROTECTED: "+map[string]string{
			DoorNATS: "other machines need no login to use the embedded NATS server, and all queues",
			doorHTTP: "other machines need no token to use the HTTP interface and the console",
			DoorLog:  "NATS clients may be able to read and purge the log of the store, which has all items",
		}[door], "door", door)
	}
}
