package settings

// Own is the URL of this address for callers on this machine.
func (a Address) Own(encrypted bool) (string, error) {
	if a.Port == 0 {
		return "", Usagef("PQ_HTTP=%s takes any port that is free: expected a port", a)
	}
	switch a.Host {
	case "", "0.0.0.0":
		a.Host = "127.0.0.1"
	case "::":
		a.Host = "::1"
	}
	return Scheme(encrypted) + a.String(), nil
}
