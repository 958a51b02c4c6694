package broker

import (
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// A server that is lost is removed by the id that it gave itself.
func TestPeerOf(t *testing.T) {
	t.Parallel()
	for _, s := range testenv.NewCluster(t).Servers {
		if srv := s.Server(); peerOf(srv.Name()) != srv.Node() {
			t.Errorf("server %s is %s, expected %s", srv.Name(), peerOf(srv.Name()), srv.Node())
		}
	}
}
