package gateway

import (
	"net"
	"testing"
)

// A client that has gone is not near: the kernel does not say whose its socket was.
func TestNearIsStillThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, leave := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"reset":  func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		is := func() bool {
			isOther, _ := ConnContext(t.Context(), conn).Value(otherUserKey{}).(func() bool)
			return isOther()
		}
		if is() {
			t.Errorf("%s: before, the client is another user's", name)
		}
		if leave(client.(*net.TCPConn)); !is() {
			t.Errorf("%s: the client that has gone is near", name)
		}
	}
}
