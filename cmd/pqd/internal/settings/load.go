package settings

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/subjects"
)

// Load reads the environment. A variable that is set to nothing counts
// as not set.
func Load() (Settings, error) {
	var s Settings
	s.set = make(map[string]bool)
	for _, name := range variables() {
		switch value, ok := os.LookupEnv(name); {
		case value != "":
			s.set[name] = true
		case ok:
			if err := os.Unsetenv(name); err != nil {
				return s, err
			}
		}
	}
	for _, table := range []any{&s, &s.NATS} {
		if err := envconfig.Process("", table); err != nil {
			return s, explain(err)
		}
	}
	return s, s.check()
}

// explain words an error of envconfig for operators.
func explain(err error) error {
	var parse *envconfig.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	reason := parse.Err.Error()
	if parse.TypeName == "bool" {
		reason = "expected true or false"
	}
	return Usagef("%s=%q: %s", parse.KeyName, parse.Value, reason)
}

// check finds settings that contradict each other.
func (s *Settings) check() error {
	if s.NATS.URL != "" {
		if _, err := natsurl.Parse(s.NATS.URL); err != nil {
			return Usagef("NATS_URL: %w", err)
		}
	}
	logins := s.among("NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_TOKEN")
	switch {
	case s.NATS.URL != "" && s.set["PQ_NATS_CONFIG"]:
		return Usagef("PQ_NATS_CONFIG configures the embedded NATS server, which does not run because NATS_URL=%q is set: expected one of the two", natsurl.Redact(s.NATS.URL))
	case s.NATS.URL != "" && s.set["PQ_LISTEN"]:
		return Usagef("PQ_LISTEN is for the embedded NATS server, which does not run because NATS_URL=%q is set: expected one of the two", natsurl.Redact(s.NATS.URL))
	case len(logins) > 1:
		return Usagef("%s are set: expected one way to log in", strings.Join(logins, " and "))
	case s.set["NATS_USER"] != s.set["NATS_PASSWORD"]:
		return Usagef("%s is set alone: expected NATS_USER and NATS_PASSWORD together (a token goes into NATS_TOKEN)", s.among("NATS_USER", "NATS_PASSWORD")[0])
	case s.set["NATS_CERT"] != s.set["NATS_KEY"]:
		return Usagef("%s is set alone: expected NATS_CERT and NATS_KEY together", s.among("NATS_CERT", "NATS_KEY")[0])
	case s.set["PQ_HTTP_CERT"] != s.set["PQ_HTTP_KEY"]:
		return Usagef("%s is set alone: expected PQ_HTTP_CERT and PQ_HTTP_KEY together", s.among("PQ_HTTP_CERT", "PQ_HTTP_KEY")[0])
	case s.NATS.URL == "" && len(logins) > 0 && s.NATSConfig == "" && !s.OwnLogin():
		return Usagef("%s is set, but the embedded NATS server does not ask for it: expected NATS_URL, PQ_NATS_CONFIG with users, or NATS_USER and NATS_PASSWORD, which it then asks all clients for", logins[0])
	}
	if s.set["PQ_MIN_FREE"] && !s.Shared() && !s.Store.Embedded() {
		return Usagef("PQ_MIN_FREE is for disks that pqd writes to, found PQ_STORE=%s: FoundationDB watches its own", s.Store)
	}
	grammar, err := s.Grammar()
	if err != nil {
		return Usagef("PQ_SITE=%q: %w", s.Site, err)
	}
	for _, g := range grammar.Each() {
		if subjects.Covers(g.All(), string(s.WebInbox)+".>") {
			return Usagef("PQ_CONSOLE_INBOX=%q: expected inboxes beside %s, where answers would be requests", s.WebInbox, g.All())
		}
		for _, pattern := range s.Replies {
			if subjects.Covers(pattern, g.All()) || subjects.Covers(g.All(), pattern) {
				return Usagef("PQ_REPLY_SUBJECTS: found %q: expected patterns beside %s, where answers would be requests", pattern, g.All())
			}
		}
	}
	if s.NATS.URL == "" && s.NATSConfig == "" && s.HTTP.meets(s.Listen) {
		return Usagef("PQ_HTTP=%s and PQ_LISTEN=%s: expected another port for one of them", s.HTTP, s.Listen)
	}
	if err := s.checkCluster(); err != nil {
		return err
	}
	if err := s.checkConsole(); err != nil {
		return err
	}
	if s.WebCert != "" {
		if _, err := tls.LoadX509KeyPair(string(s.WebCert), string(s.WebKey)); err != nil {
			return BadPair("PQ_HTTP_CERT", s.WebCert, "PQ_HTTP_KEY", s.WebKey, err)
		}
	}
	if tls := s.among("NATS_CA", "NATS_CERT"); s.NATS.URL == "" && len(tls) > 0 {
		return Usagef("%s is for connecting to NATS_URL, which is not set", tls[0])
	}
	return nil
}

// variables are the names of all settings.
func variables() []string {
	var names []string
	for _, table := range []any{Settings{}, NATS{}} {
		for field := range reflect.TypeOf(table).Fields() {
			if name := field.Tag.Get("envconfig"); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// Unknown returns variables whose names begin like settings but are none, such as a mistyped name.
func Unknown(environment []string) []string {
	known := variables()
	var names []string
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PQ_") && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	return names
}

// readObject reads an object in JSON whose fields are all fields of the value, none of them twice, and none null. A
// file with any other field asks for something that pqd would not do.
func readObject(text []byte, into any) error {
	if err := jsontext.Check(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			break // of the end; or the text is no JSON, as the decoder below says
		}
		if token == nil {
			return errors.New("found null: expected a value, or no such field")
		}
	}
	d = json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return jsontext.Wrong(err)
	}
	if err := checkNames(text, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	if _, more := d.Token(); more != io.EOF {
		return errors.New("there is more behind the object")
	}
	return nil
}

// checkNames refuses fields in another case, which encoding/json accepts as fields of a type, even beside the right
// ones.
func checkNames(text []byte, t reflect.Type) error {
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&fields); err != nil {
		return err
	}
	for name, value := range fields {
		of := t
		if t.Kind() == reflect.Map {
			of = t.Elem()
		} else {
			all := reflect.VisibleFields(t)
			i := slices.IndexFunc(all, func(f reflect.StructField) bool { return f.Tag.Get("json") == name })
			if i < 0 {
				return fmt.Errorf("unknown field %q", name)
			}
			of = all[i].Type
		}
		if err := checkNames(value, of); err != nil {
			return err
		}
	}
	return nil
}
