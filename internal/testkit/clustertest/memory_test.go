package clustertest

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

func TestLogInMemory(t *testing.T) {
	t.Parallel()
	RunLog(t, LogHarness{
		Place: func(testing.TB) func() cluster.Log {
			l := NewLog()
			return func() cluster.Log { return l }
		},
		Remove: func(_ testing.TB, l cluster.Log) { l.(*Log).Remove() },
	})
}

func TestMembersInMemory(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	RunMembers(t, func(testing.TB) cluster.Members { return n })
}
