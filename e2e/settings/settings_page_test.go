package settings_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// The table of docs/settings.md of settings is the one that --help prints.
func TestPageOfSettings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:PQ|NATS)_\\w+)` \\|(.*)\\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		shown[row[1]] = strings.Join(strings.Fields(strings.ReplaceAll(row[2]+" "+row[3], "`", "")), " ")
	}
	_, help, _ := testenv.Run(t, nil, "--help")
	printed := 0
	for _, row := range regexp.MustCompile(`(?m)^((?:PQ|NATS)_\w+) +(.*)$`).FindAllStringSubmatch(help, -1) {
		printed++
		if meaning := strings.Join(strings.Fields(row[2]), " "); shown[row[1]] != meaning {
			t.Errorf("%s: the page says %q, --help says %q", row[1], shown[row[1]], meaning)
		}
	}
	if printed == 0 || printed != len(shown) {
		t.Errorf("the page has %d settings, --help %d", len(shown), printed)
	}
}
