package pqd

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// StreamStore is a store in a stream of a NATS server that runs beside pqd. The stream
// does not exist yet.
type StreamStore struct {
	Outside *testenv.Server
	Size    string // of the stream
	Work    string
	Nc      *nats.Conn
}

func NewStreamStore(t *testing.T, size string, more ...func(*server.Options)) *StreamStore {
	outside := testenv.NATS(t, append(more, func(o *server.Options) { o.JetStream, o.StoreDir, o.SyncAlways = true, t.TempDir(), true })...)
	return &StreamStore{Outside: outside, Size: size, Work: t.TempDir(), Nc: outside.Connect(t)}
}

// Env are the settings of a pqd that keeps the store.
func (s *StreamStore) Env(node string) []string {
	return []string{
		"NATS_URL=" + s.Outside.URL(), "PQ_STORE=jetstream:pq?sync=always&replicas=1&max_bytes=" + s.Size,
		"PQ_NODE=" + node, "PQ_DATA=" + filepath.Join(s.Work, node), "PQ_CONSOLE=read",
		"PQ_UNPROTECTED=log", // the server has no users
	}
}

// Init makes the stream.
func (s *StreamStore) Init(t *testing.T) {
	t.Helper()
	if code, _, stderr := testenv.Run(t, s.Env("a"), "init"); code != 0 {
		t.Fatalf("pqd init ended with exit code %d: %s", code, stderr)
	}
}

// Pair makes the stream and starts two pqd, and says which is active.
func (s *StreamStore) Pair(t *testing.T) (nodes *testenv.Nodes, active, follower *testenv.Process) {
	t.Helper()
	s.Init(t)
	first, second := testenv.Daemon(t, s.Env("a")...), testenv.Daemon(t, s.Env("b")...)
	nodes = &testenv.Nodes{All: []*testenv.Process{first, second}}
	if active = nodes.Active(t); active == first {
		return nodes, active, second
	}
	return nodes, active, first
}

func (s *StreamStore) Ask(t *testing.T, subject, body string, header ...string) *nats.Msg {
	t.Helper()
	return AskServing(t, s.Nc, subject, body, header...)
}

// AskServing sends a request until a pqd serves it.
func AskServing(t *testing.T, nc *nats.Conn, subject, body string, header ...string) (reply *nats.Msg) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	m.Header.Set("Nats-Msg-Id", nats.NewInbox()) // so it is done once, however often it is asked for
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	testenv.Await(t, subject+" is answered", func() bool {
		var err error
		reply, err = nc.RequestMsg(m, testenv.Attempt())
		return err == nil && reply.Header.Get("Status") != "503"
	})
	return reply
}

// Status is the answer of any pqd.
func (s *StreamStore) Status(t *testing.T) (c protocol.Cluster) {
	t.Helper()
	answer, err := s.Nc.Request("pq._sys.cluster.status", nil, testenv.Patience())
	if err == nil {
		err = json.Unmarshal(answer.Data, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
