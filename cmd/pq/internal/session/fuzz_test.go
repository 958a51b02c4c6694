package session

import (
	"strings"
	"testing"
)

// The same for any context of the nats command.
func FuzzContext(f *testing.F) {
	f.Add([]byte(`{"url":"nats://127.0.0.1:4222","user":"a","password":"b","creds":"~/x","ca":"$HOME/y"}`))
	f.Add([]byte(`{"nsc":"nsc://a/b/c"}`))
	f.Add([]byte(`{"user_jwt":"a","user_seed":5}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		saved, err := readContext(text)
		if err != nil {
			return
		}
		saved.NSC = "" // nsc is not to be run
		if strings.HasPrefix(saved.Creds, nscScheme) {
			return
		}
		if err := saved.resolve(map[string]string{"HOME": "/home"}); err != nil {
			return
		}
		var own login
		l := own.or(saved.login)
		l.Creds, l.NKey, l.CA, l.Cert, l.Key = "", "", "", "", "" // not to be looked for
		if _, err := l.options(); err != nil && l.SOCKSProxy == "" {
			t.Errorf("%q: %v", text, err)
		}
	})
}
