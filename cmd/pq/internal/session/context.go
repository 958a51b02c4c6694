package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Login merges flags and variables with a context of the nats command, which has the lowest
// priority. It also returns the name of the context.
func (s *Session) Login() (l login, from string, err error) {
	l, from = s.Global.login, s.Global.context
	file := from
	if from == "" {
		from = s.selectedContext()
	}
	if from == "" {
		return l, "", nil
	}
	if !strings.HasSuffix(file, ".json") {
		if strings.Contains(from, "..") || strings.ContainsRune(from, filepath.Separator) {
			return l, from, Usagef("context %q: expected a name, or a file that ends in .json", from)
		}
		file = filepath.Join(s.ConfigDir(), "context", from+".json")
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return l, from, Usagef("no context %q: expected the file %s (\"nats context ls\" has those there are)", from, file)
	}
	var saved natsContext
	if err == nil {
		saved, err = readContext(text)
	}
	if err == nil {
		err = saved.resolve(s.Env)
	}
	if err != nil {
		return l, from, fmt.Errorf("context %s: %w", from, err)
	}
	return l.or(saved.login), from, nil
}

// natsContext is what the nats command saves in a context.
type natsContext struct {
	login
	NSC string `json:"nsc"`
}

func readContext(text []byte) (saved natsContext, err error) {
	return saved, json.Unmarshal(text, &saved)
}

// Credentials in a context are a file, which may be a URL, or known to the nsc
// command.
const (
	fileScheme = "file://"
	nscScheme  = "nsc://"
)

// resolve completes a context as the nats command does: it asks nsc for the profile, and
// expands variables and the home directory in names of files.
func (c *natsContext) resolve(env map[string]string) error {
	if c.NSC == "" && strings.HasPrefix(c.Creds, nscScheme) {
		c.NSC = c.Creds
	}
	if c.NSC != "" {
		profile, err := nscProfile(c.NSC)
		if err != nil {
			return err
		}
		c.Creds = profile.UserCreds
		c.Server = cmp.Or(c.Server, strings.Join(profile.Operator.Service, ","))
	}
	for _, file := range []*string{&c.Creds, &c.NKey, &c.Cert, &c.Key, &c.CA} {
		*file = strings.TrimPrefix(*file, fileScheme)
		if scheme, _, found := strings.Cut(*file, "://"); found {
			return fmt.Errorf("%s:// is a scheme that pq does not know: expected a file, or %s for credentials", scheme, nscScheme)
		}
		if rest, home := strings.CutPrefix(*file, "~"); home {
			*file = env["HOME"] + rest
		}
		*file = os.Expand(*file, func(name string) string { return env[name] })
	}
	return nil
}

// profile is nsc's answer about a user.
type profile struct {
	UserCreds string `json:"user_creds"`
	Operator  struct {
		Service []string `json:"service"`
	} `json:"operator"`
}

// nscProfile asks the nsc command about a user.
func nscProfile(name string) (p profile, err error) {
	text, err := exec.Command("nsc", "generate", "profile", name).Output()
	if err != nil {
		return p, fmt.Errorf("nsc generate profile %s: %w", name, err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("the profile that nsc has of %s: %w", name, err)
	}
	if p.UserCreds == "" {
		return p, fmt.Errorf("nsc has no credentials of %s", name)
	}
	return p, nil
}

// ConfigDir is where the nats command keeps its contexts.
func (s *Session) ConfigDir() string {
	return filepath.Join(cmp.Or(s.Env["XDG_CONFIG_HOME"], filepath.Join(s.Env["HOME"], ".config")), "nats")
}

func (s *Session) selectedContext() string {
	text, err := os.ReadFile(filepath.Join(s.ConfigDir(), "context.txt"))
	if err != nil {
		return "" // none is selected
	}
	return strings.TrimSpace(string(text))
}
