package broker

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sockets are connections to a TCP port of this process, by the addresses of their
// clients. nats-server does not show its sockets, so the process finds them among its
// descriptors.
type sockets struct {
	port uint16
	fds  map[netip.AddrPort]int
}

// findSockets lists the connections to port. Any descriptor may be closed and reused at any
// time afterwards.
func findSockets(port uint16) (sockets, error) {
	s := sockets{port: port, fds: make(map[netip.AddrPort]int)}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return s, fmt.Errorf("list the descriptors of this process: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if client, ok := clientOf(fd, port); ok {
			s.fds[client] = fd
		}
	}
	return s, nil
}

// clientOf returns the other end's address if fd is connected to port.
func clientOf(fd int, port uint16) (client netip.AddrPort, ok bool) {
	here, err := unix.Getsockname(fd)
	if err != nil || addressOf(here).Port() != port {
		return client, false
	}
	there, err := unix.Getpeername(fd)
	if err != nil {
		return client, false
	}
	client = addressOf(there)
	return client, client.IsValid()
}

func addressOf(a unix.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// acknowledged is how many bytes the client's machine has acknowledged, and 0 if that
// is unknown.
func (s sockets) acknowledged(client netip.AddrPort) uint64 {
	fd, found := s.fds[client]
	if !found {
		return 0
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return info.Bytes_acked
}

// shut ends the connection and every blocked write to it. It reports whether the connection
// was there.
func (s sockets) shut(client netip.AddrPort) bool {
	fd, found := s.fds[client]
	if !found {
		return false
	}
	// The copy refers to the same socket until it is closed, even if fd is reused.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(own)
	if now, ok := clientOf(own, s.port); !ok || now != client {
		return false
	}
	return unix.Shutdown(own, unix.SHUT_RDWR) == nil
}
