package foreign

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// Jobs with one id are different ones where they are in another Redis, another database, under another prefix, or were added
// at another time; the same job is the same one each time that it is read.
func TestUniqueValuesOfBullMQ(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for name, tc := range map[string]struct{ address, prefix, added string }{
		"the job":            {"redis://127.0.0.1:6379/0", "shop", "1700000000000"},
		"another Redis":      {"redis://127.0.0.2:6379/0", "shop", "1700000000000"},
		"another port":       {"redis://127.0.0.1:6380/0", "shop", "1700000000000"},
		"another database":   {"redis://127.0.0.1:6379/1", "shop", "1700000000000"},
		"another prefix":     {"redis://127.0.0.1:6379/0", "blog", "1700000000000"},
		"ids begin again":    {"redis://127.0.0.1:6379/0", "shop", "1700000000001"},
		"a password, and so": {"redis://u:secret@127.0.0.1:6381/0", "shop", "1700000000000"},
	} {
		var uniques []string
		for range 2 {
			source, err := openBullMQ("mails", Options{Redis: tc.address, Prefix: tc.prefix})
			if err != nil {
				t.Fatal(err)
			}
			item, err := source.(*bullMQ).item("1", map[string]string{"data": "{}", "timestamp": tc.added})
			if err != nil {
				t.Fatal(err)
			}
			uniques = append(uniques, item.Unique)
			if err := source.Close(); err != nil {
				t.Error(err)
			}
		}
		if uniques[0] != uniques[1] || strings.Contains(uniques[0], "secret") {
			t.Errorf("%s: %q", name, uniques)
		}
		if same := seen[uniques[0]]; same != "" {
			t.Errorf("%s and %s are both %s", name, same, uniques[0])
		}
		seen[uniques[0]] = name
	}
}

// Reasons that people write come over as pqd keeps them: one line, of a bounded length, whole characters.
func TestReasonsOfBullMQ(t *testing.T) {
	t.Parallel()
	b := &bullMQ{database: new(database)}
	for text, want := range map[string]string{
		"Error: no route\n    at send (mail.js:7)": "Error: no route     at send (mail.js:7)",
		strings.Repeat("ä", 150):                   strings.Repeat("ä", protocol.MaxReason/2),
		"a" + strings.Repeat("ä", 150):             "a" + strings.Repeat("ä", protocol.MaxReason/2-1),
		"\xff":                                     "\uFFFD",
	} {
		item, err := b.item("1", map[string]string{"data": "{}", "attemptsMade": "1", "processedOn": "1700000000000", "failedReason": text})
		if err != nil || len(item.Attempts) != 1 || item.Attempts[0].Reason != want {
			t.Errorf("%q becomes %+v, %v; expected %q", text, item.Attempts, err, want)
		}
	}
}

// An address that cannot be read is not shown: it may have a password.
func TestAddressOfRedisIsNotShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis://u:sec/ret@127.0.0.1:6379", "http://u:secret@127.0.0.1", "redis://u:secret%@127.0.0.1"} {
		if _, err := dialRedis(address); err == nil || strings.Contains(err.Error(), "sec") || !strings.Contains(err.Error(), "expected redis://") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
