package settings

import "testing"

// Without PQ_CONSOLE the HTTP interface changes queues where every program of the machine, and none beyond it, may do so
// over NATS anyway. Anything that tells callers apart, or lets others in, takes this away.
func TestModeByDefault(t *testing.T) {
	t.Parallel()
	here, everywhere := Address{Host: "127.0.0.1", Port: 1}, Address{Host: "0.0.0.0", Port: 1}
	const file = ExistingFile("/etc/pqd/file")
	for name, c := range map[string]struct {
		change func(*Settings)
		want   consoleMode
	}{
		"nothing is set":            {func(*Settings) {}, ConsoleAdmin},
		"by name":                   {func(s *Settings) { s.HTTP.Host, s.Listen.Host = "localhost", "::1" }, ConsoleAdmin},
		"another store":             {func(s *Settings) { s.Store = StoreName{Engine: "fdb"} }, ConsoleAdmin},
		"PQ_HTTP for others":        {func(s *Settings) { s.HTTP = everywhere }, ConsoleOff},
		"PQ_LISTEN for others":      {func(s *Settings) { s.Listen = everywhere }, consoleRead},
		"a login":                   {func(s *Settings) { s.NATS.User, s.NATS.Password = "pq", "0123456789abcdef" }, consoleRead},
		"a token":                   {func(s *Settings) { s.Token = file }, consoleRead},
		"a token, and for others":   {func(s *Settings) { s.Token, s.HTTP = file, everywhere }, consoleRead},
		"a login, and for others":   {func(s *Settings) { s.NATS.User, s.HTTP = "pq", everywhere }, consoleRead},
		"tenants":                   {func(s *Settings) { s.Tenants = file }, consoleRead},
		"a cluster":                 {func(s *Settings) { s.Cluster = nodes{{Host: "127.0.0.1"}} }, consoleRead},
		"hosts, so a proxy":         {func(s *Settings) { s.HTTPHosts = HostNames{"pqd.example.com"} }, consoleRead},
		"a NATS server outside":     {func(s *Settings) { s.NATS.URL = "nats://127.0.0.1:4222" }, ConsoleOff},
		"a configuration of NATS":   {func(s *Settings) { s.NATSConfig = file }, ConsoleOff},
		"a token and NATS outside":  {func(s *Settings) { s.NATS.URL, s.Token = "nats://127.0.0.1:4222", file }, consoleRead},
		"PQ_CONSOLE=read":           {func(s *Settings) { s.Console = consoleRead }, consoleRead},
		"PQ_CONSOLE=admin":          {func(s *Settings) { s.Console = ConsoleAdmin }, ConsoleAdmin},
		"PQ_CONSOLE=off":            {func(s *Settings) { s.Console = ConsoleOff }, ConsoleOff},
		"PQ_CONSOLE=admin, a login": {func(s *Settings) { s.Console, s.NATS.User = ConsoleAdmin, "pq" }, ConsoleAdmin},
	} {
		s := Settings{HTTP: here, Listen: here}
		c.change(&s)
		if got := s.Mode(); got != c.want {
			t.Errorf("%s: %s, expected %s", name, got, c.want)
		}
		if got, want := s.ChangesNear(), c.want == ConsoleAdmin && s.Console == ""; got != want {
			t.Errorf("%s: changes for programs on the machine alone: %v, expected %v", name, got, want)
		}
	}
}
