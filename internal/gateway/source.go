package gateway

import "net/netip"

// source is whom a request or a connection counts for: the tenant whose token it shows, and otherwise its
// client's address, or the network of an IPv6 address, because one machine has as many of these as it likes. Behind a
// proxy it is the proxy: what a request says of its origin may be wrong.
type source struct {
	netip.Prefix
	tenant string
}

// of returns the source of a caller who asks from there.
func (s source) of(who *caller) source {
	if who.tenant != "" {
		return source{tenant: who.tenant}
	}
	return s
}

// name is what messages call it.
func (s source) name() string {
	if s.tenant != "" {
		return "tenant " + s.tenant
	}
	return s.Addr().String()
}

func sourceOf(remote string) source {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return source{} // no address of a network
	}
	addr := at.Addr().Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return source{} // addresses have so many bits
	}
	return source{Prefix: network}
}
