package gateway

import "net/netip"

// source is the party for which a request or a connection counts: the tenant whose token it shows; otherwise the
// client's address, or the network of an IPv6 address, because one machine can use all addresses of its network.
// Behind a proxy it is the proxy's address: a request may lie about its origin.
type source struct {
	netip.Prefix
	tenant string
}

// of returns the source of a caller at an address.
func (s source) of(who *caller) source {
	if who.tenant != "" {
		return source{tenant: who.tenant}
	}
	return s
}

// name is the name of the source in error texts.
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
		return source{} // the prefix length fits an address
	}
	return source{Prefix: network}
}
