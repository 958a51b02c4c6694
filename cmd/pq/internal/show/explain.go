package show

import (
	"fmt"

	"github.com/pqbridge/pqbridge/protocol"
)

// NextStep is what to do about a queue, or about an item of it, with the command that does it, if one does; "" where there is
// nothing to do.
func NextStep(queue string, e *protocol.Explain) string {
	command := ""
	switch {
	case e.Cause == protocol.CausePaused:
		command = "pq resume " + queue
	case e.Cause == protocol.CauseBlocked && e.WaitsFor == "pause":
		command = fmt.Sprintf("pq key resume %s %q", queue, e.Key)
	case e.Cause == protocol.CauseHeld:
		command = "pq link ls " + queue
	case e.Item != "" && !e.Since.IsZero():
		command = fmt.Sprintf("pq revoke %s %s", queue, e.Item)
	}
	if command == "" || e.Next == "" {
		return e.Next
	}
	return e.Next + " " + command
}
