package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// Each header of a push is a parameter and a field of an item, and reaches the bridge, which refuses a wrong value.
func TestEachPushHeaderIsPassedOn(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, h := range protocol.PushHeaders {
		wrong := "another"
		if _, text := h.Type.(string); text && h.Most > 0 {
			wrong = strings.Repeat("x", int(h.Most)+1)
		}
		if r := s.send("POST", "/v1/queues/jobs/push?"+h.Word+"="+wrong, "x"); r.code != protocol.CodeBadRequest {
			t.Errorf("%s=%.20s answers %d: expected that push in internal/gateway/push.go passes it on as %s, and that the bridge refuses it", h.Word, wrong, r.code, h.Name)
		}
		if r := s.send("POST", "/v1/queues/jobs/push-many", fmt.Sprintf(`[{"payload":"x",%q:%q}]`, h.Word, wrong)); r.code != protocol.CodeBadRequest {
			t.Errorf("an item with %s of %.20s answers %d: expected that readField in internal/gateway/push_many.go passes it on as %s, and that the bridge refuses it",
				h.Word, wrong, r.code, h.Name)
		}
	}
}
