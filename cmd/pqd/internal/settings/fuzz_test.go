package settings

import (
	"strings"
	"testing"
)

// Any value of a variable is read as it is shown, or refused with a text that says what
// was expected.
func FuzzSettings(f *testing.F) {
	for _, value := range []string{
		"local:./pq-data", "fdb:/etc/foundationdb/fdb.cluster?prefix=a", "fdb:x?prefix=", "fdb:", "pq", "a.b-c", "_x",
		"127.0.0.1:4222", "[::1]:0", ":65536", "text", "JSON", "warn",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		check := func(what string, err error) {
			if text := err.Error(); !strings.Contains(text, "expected") {
				t.Errorf("%s %q: %s", what, value, text)
			}
		}
		var store, sameStore StoreName
		if err := store.Decode(value); err != nil {
			check("store", err)
		} else if err := sameStore.Decode(store.String()); err != nil || sameStore != store {
			t.Errorf("%q is read as %+v, shown and read as %+v, %v", value, store, sameStore, err)
		}
		var listen, sameListen Address
		if err := listen.Decode(value); err != nil {
			check("address", err)
		} else if err := sameListen.Decode(listen.String()); err != nil || sameListen != listen {
			t.Errorf("%q is read as %+v, shown and read as %+v, %v", value, listen, sameListen, err)
		}
		for what, decode := range map[string]func(string) error{
			"prefix": new(prefix).Decode, "format": new(logFormat).Decode, "level": new(logLevel).Decode,
		} {
			if err := decode(value); err != nil {
				check(what, err)
			}
		}
	})
}
