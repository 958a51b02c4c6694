package settings

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/subjects"
)

// Remote is a NATS server where sources find streams, and links of other stores, as PQ_REMOTES has it.
type Remote struct {
	URL      string                  `json:"url"`
	Creds    string                  `json:"creds"`
	NKey     string                  `json:"nkey"`
	User     string                  `json:"user"`
	Password string                  `json:"password"`
	Token    string                  `json:"token"`
	CA       string                  `json:"ca"`
	Cert     string                  `json:"cert"`
	Key      string                  `json:"key"`
	Inbox    string                  `json:"inbox_prefix"`
	Domain   string                  `json:"domain"`
	Streams  map[string]RemoteStream `json:"streams"`
	Queues   map[string][]string     `json:"queues"` // which queues may take the items of a queue there
}

// RemoteStream says which queues may read a stream.
type RemoteStream struct {
	Read []string `json:"read"`
}

// Self is the name of the remote that is pqd's own NATS server.
const Self = "self"

// othersMay are the permissions of a file with secrets that all users of the machine have.
const othersMay fs.FileMode = 0o007

// ReadRemotes reads PQ_REMOTES.
func (s *Settings) ReadRemotes() (map[string]Remote, error) {
	if s.Remotes == "" {
		return nil, nil
	}
	text, err := readPrivate(string(s.Remotes))
	if err != nil {
		return nil, Usagef("PQ_REMOTES: %w", err)
	}
	var remotes map[string]Remote
	if err := readObject(text, &remotes); err != nil {
		return nil, Usagef("PQ_REMOTES=%q: expected an object of remotes by their names: %w", s.Remotes, err)
	}
	for name, r := range remotes {
		if err := s.checkRemote(name, r); err != nil {
			return nil, Usagef("PQ_REMOTES=%q: remote %q: %w", s.Remotes, name, err)
		}
	}
	return remotes, nil
}

func (s *Settings) checkRemote(name string, r Remote) error {
	if !isRemoteName(name) {
		return fmt.Errorf("expected a name without spaces, dots, slashes, * and >")
	}
	grammar, err := s.Grammar()
	if err != nil {
		return err
	}
	logins := 0
	for _, login := range []string{r.Creds, r.NKey, r.User, r.Token} {
		if login != "" {
			logins++
		}
	}
	switch {
	case name == Self && (r.URL != "" || logins > 0 || r.CA != "" || r.Cert != "" || r.Key != "" || r.Inbox != ""):
		return fmt.Errorf("it is pqd's own NATS server: expected only domain, streams and queues")
	case name == Self:
	case r.URL == "":
		return fmt.Errorf("url is missing: expected the servers, separated by commas")
	case logins > 1:
		return fmt.Errorf("expected one way to log in")
	case (r.User == "") != (r.Password == ""):
		return fmt.Errorf("expected user and password together")
	case (r.Cert == "") != (r.Key == ""):
		return fmt.Errorf("expected cert and key together")
	default:
		if err := checkURL(r.URL); err != nil {
			return fmt.Errorf("url: %w", err)
		}
	}
	for _, secret := range []string{r.Creds, r.NKey, r.Key} {
		if secret == "" {
			continue
		}
		if _, err := readPrivate(secret); err != nil {
			return err
		}
	}
	if r.Inbox != "" {
		if err := new(inboxPrefix).Decode(r.Inbox); err != nil {
			return fmt.Errorf("inbox_prefix is %q: %w", r.Inbox, err)
		}
	}
	if strings.ContainsAny(r.Domain, " \t\r\n.*>") {
		return fmt.Errorf("domain is %q: expected the name of a JetStream domain", r.Domain)
	}
	for stream, may := range r.Streams {
		if name == Self && s.Store.Engine == "jetstream" && stream == s.Store.Place {
			return fmt.Errorf("the stream %q is the log of the store: no queue may read it", stream)
		}
		if !isRemoteName(stream) {
			return fmt.Errorf("stream %q: expected a name without spaces, dots, slashes, * and >", stream)
		}
		if err := s.checkMay(grammar, "stream", stream, may.Read); err != nil {
			return err
		}
	}
	for queue, may := range r.Queues {
		there := strings.TrimSuffix(queue, "."+subjects.Own(queue))
		_, err := subjects.New(there)
		if err = cmp.Or(err, subjects.CheckQueue(subjects.Own(queue))); err != nil || there == queue {
			return fmt.Errorf("queue %q: expected the prefix of the other side and its queue, such as edge7.orders", queue)
		}
		if err := s.checkMay(grammar, "queue", queue, may); err != nil {
			return err
		}
	}
	return nil
}

// isRemoteName reports whether a remote, or a stream, may have the name.
func isRemoteName(name string) bool {
	return name != "" && len(name) <= 255 && !strings.ContainsAny(name, " \t\r\n.*>/\\\x00")
}

// checkURL checks the servers of a remote. Each has to say whether it is encrypted, because credentials go there.
func checkURL(list string) error {
	if _, err := natsurl.Parse(list); err != nil {
		return err
	}
	for i, server := range strings.Split(list, ",") {
		if !strings.Contains(server, "://") {
			return fmt.Errorf("address %d of the list says not how to connect: expected nats://<host>:<port>, or tls, ws or wss instead of nats", i+1)
		}
	}
	return nil
}

// checkMay checks the queues that may use a stream or a link of a remote.
func (s *Settings) checkMay(grammar subjects.Grammar, kind, what string, may []string) error {
	if len(may) == 0 {
		return fmt.Errorf("%s %q: nobody may read it; expected names of queues, or no such %s", kind, what, kind)
	}
	for i, queue := range may {
		if slices.Contains(may[:i], queue) {
			return fmt.Errorf("%s %q: found the queue %q twice", kind, what, queue)
		}
		if queue == "*" && s.Tenants != "" {
			return fmt.Errorf("%s %q: with PQ_TENANTS expected names such as acme.jobs: * would be the queues of all tenants", kind, what)
		}
		if err := grammar.CheckName(queue); queue != "*" && err != nil {
			return fmt.Errorf("%s %q: %w", kind, what, err)
		}
	}
	return nil
}

// readPrivate reads a file with secrets.
func readPrivate(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode()&othersMay != 0 {
		return nil, fmt.Errorf("every user of this machine can reach %q: expected mode 0600, or 0640 for a group", file)
	}
	return os.ReadFile(file)
}
