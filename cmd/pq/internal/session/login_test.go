package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestContextNamesFiles(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/me", "KEYS": "/keys"}
	saved := natsContext{login: login{Creds: "~/a.creds", NKey: "$KEYS/n", Key: "file:///key", CA: "/ca"}}
	want := login{Creds: "/home/me/a.creds", NKey: "/keys/n", Key: "/key", CA: "/ca"}
	if err := saved.resolve(env); err != nil || saved.login != want {
		t.Errorf("resolved to %+v, %v, expected %+v", saved.login, err, want)
	}
}

// The context supplies what the login of the environment or the command line leaves open.
func TestLoginsAreNotMixed(t *testing.T) {
	t.Parallel()
	saved := login{Server: "s", User: "u", Password: "p", CA: "ca", Creds: "c"}
	for _, tc := range []struct{ given, want login }{
		{login{}, saved},
		{login{Server: "other"}, login{Server: "other", User: "u", Password: "p", CA: "ca", Creds: "c"}},
		{login{Token: "t"}, login{Server: "s", Token: "t", CA: "ca"}},
		{login{User: "me", CA: "mine"}, login{Server: "s", User: "me", CA: "mine"}},
	} {
		if diff := cmp.Diff(tc.want, tc.given.or(saved)); diff != "" {
			t.Errorf("%+v: -want +got\n%s", tc.given, diff)
		}
	}
}
