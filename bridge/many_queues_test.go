package bridge_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The list of queues goes on beyond what one read of the store gives.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const queues, together = 1001, 77
	session := c.env.Store.Session()
	defer session.Release()
	for first := 0; first < queues; first += together {
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			for i := range together {
				if _, err := c.env.Store.Queue(fmt.Sprintf("q%04d", first+i)).Configure(tx, []byte("{}")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	list := object[struct {
		Total  int
		Queues []string
	}](c, "pq._sys.list", `{"offset":999}`)
	if list.Total != queues || fmt.Sprint(list.Queues) != "[q0999 q1000]" {
		t.Errorf("%+v", list)
	}
}
