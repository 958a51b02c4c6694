package gateway

import (
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel tells by its interface sock_diag which user has a socket: struct inet_diag_req_v2 behind a struct nlmsghdr, answered by a
// struct inet_diag_msg. Only fields that are used here have a name.
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	headSize     = 16
	askSize      = headSize + 56
	answerSize   = headSize + 72
	stateAt      = headSize + 1
	userAt       = headSize + 64

	established = 1 // TCP_ESTABLISHED
)

// isOtherUser reports whether a program of another user than this process's has the other end of a connection on this machine. False
// where the kernel does not say. A connection that its client has closed already is nobody's.
func isOtherUser(here, there netip.AddrPort) bool {
	user, open, found := socketBetween(there, here)
	if !found {
		_, _, says := socketBetween(here, there) // some systems answer as if there were no such socket
		return says
	}
	return !open || user != uint32(os.Getuid())
}

// socketBetween returns the user of the socket of a connection that has the address from.
func socketBetween(from, to netip.AddrPort) (user uint32, open, found bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false, false
	}
	defer unix.Close(fd)
	ask := make([]byte, askSize)
	binary.NativeEndian.PutUint32(ask, askSize)
	binary.NativeEndian.PutUint16(ask[4:], diagByFamily)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST)
	body := ask[headSize:]
	body[0], body[1] = unix.AF_INET6, unix.IPPROTO_TCP
	if from.Addr().Is4() {
		body[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(body[4:], ^uint32(0)) // any state
	id := body[8:]
	binary.BigEndian.PutUint16(id, from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:20], from.Addr().AsSlice())
	copy(id[20:36], to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // no cookie
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, false, false
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT) // it has answered: Sendto runs its handler
	if err != nil || n < answerSize || binary.NativeEndian.Uint16(answer[4:]) != diagByFamily {
		return 0, false, false
	}
	return binary.NativeEndian.Uint32(answer[userAt:]), answer[stateAt] == established, true
}
