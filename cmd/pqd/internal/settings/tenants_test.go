package settings

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a file does not say is as usual; what a tenant does not say is as the default.
func TestTenants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]Quotas{
		"{}": {usualQuotas, usualQuotas},
		`{"default":{"items":5,"queues":0},"tenants":{"a":{"items":7}}}`: {{Items: 5, Waiting: 1000}, {Items: 7, Waiting: 1000}},
		`{"tenants":{"a":{"requests":3}}}`:                               {usualQuotas, {Queues: 1000, Waiting: 1000, Requests: 3}},
	} {
		read, err := parseTenants([]byte(text))
		if err != nil || read.Of("b") != want[0] || read.Of("a") != want[1] {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
	for _, text := range []string{"", "[]", "{} {}", `{"defaults":{}}`, `{"default":{"item":1}}`, `{"default":{"items":-1}}`, `{"default":{"items":1.5}}`, `{"tenants":{"a.b":{}}}`, `{"tenants":{"_a":{}}}`, `{"tenants":{"a":1}}`, `{"default":{"token":"x"}}`, `{"tenants":{"a":{"token":1}}}`,
		`{"Default":{}}`, `{"default":{"items":1,"Items":2}}`, `{"tenants":{"a":{"ITEMS":1}}}`, "null", `{"default":null}`, `{"tenants":null}`, `{"tenants":{"a":null}}`, `{"default":{"items":null}}`, `{"default":{"items":"5"}}`, `{"default":{"items":1e30}}`,
		`{"tenants":{"a":{"items":1},"a":{"items":2}}}`, `{"default":{},"default":{}}`, `{"default":{"items":1,"items":2}}`, `{"default":[]}`, `{"tenants":[]}`} {
		if read, err := parseTenants([]byte(text)); err == nil || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "settings.") {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
}

// A token belongs to one tenant, or to the operator, who has one as soon as a tenant has.
func TestTokensOfTenants(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) ExistingFile {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ExistingFile(file)
	}
	operator := write("operator", "the token of the operator")
	write("a", "the token of tenant a\n")
	write("same", "the token of tenant a")
	write("short", "short")
	for tenants, c := range map[string]struct {
		settings Settings
		want     string
	}{
		`"a":{"token":"a"}`:                      {Settings{Token: operator}, ""},
		`"a":{"token":"a"},"b":{}`:               {Settings{Token: operator}, ""},
		` "a":{"token":"a"}`:                     {Settings{Console: ConsoleOff, Token: operator}, "console is off"},
		`  "a":{"token":"a"}`:                    {Settings{Console: ConsoleAdmin, HTTP: Address{Host: "127.0.0.1"}}, "PQ_CONSOLE_TOKEN"},
		`"a":{"token":"short"}`:                  {Settings{Token: operator}, "16 characters"},
		`"a":{"token":"none"}`:                   {Settings{Token: operator}, "no such file"},
		`"a":{"token":"operator"}`:               {Settings{Token: operator}, "the operator and tenant a have the same"},
		`"a":{"token":"a"},"b":{"token":"same"}`: {Settings{Token: operator}, "have the same token"},
	} {
		c.settings.Tenants = write("tenants.json", strings.ReplaceAll(`{"tenants":{`+tenants+`}}`, `"token":"`, `"token":"`+dir+`/`))
		read, err := c.settings.ReadTenants()
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, expected %s", tenants, err, c.want)
			}
			continue
		}
		if err != nil || !read.HaveTokens() || read.ByToken(sha256.Sum256([]byte("the token of tenant a"))) != "a" || read.ByToken(sha256.Sum256(nil)) != "" {
			t.Errorf("%s: %+v, %v", tenants, read, err)
		}
	}
}
