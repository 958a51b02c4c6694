package show

import (
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// Why is what keeps the items of a queue, and what to do about it. Keys, holders and what items died of are texts of others, so
// it does nothing to a terminal.
func Why(queue string, e *protocol.Explain) string {
	return strings.TrimSpace(Harmless(e.Text) + " " + NextStep(queue, e))
}

// NextStep is what to do about a queue, or about an item of it, with the command that does it, if one does; "" where there is
// nothing to do.
func NextStep(queue string, e *protocol.Explain) string {
	command := ""
	switch {
	case e.Cause == protocol.CausePaused:
		command = Command("resume", []string{queue})
	case e.Cause == protocol.CauseBlocked && e.WaitsFor == "pause":
		command = Command("key resume", []string{queue, e.Key})
	case e.Cause == protocol.CauseHeld:
		command = Command("link ls", []string{queue})
	case e.Cause == protocol.CauseDeadLetters:
		origin, found := DeadLettersOf(queue)
		switch {
		case found && e.Item != "":
			command = Command("dead requeue", []string{origin, e.Item})
		case found:
			command = Command("dead groups", []string{origin})
		}
	case e.Failing > 0 && e.Until.IsZero():
		command = Command("list", []string{queue}, "--attempts")
	case e.Failing > 0:
		command = Command("list", []string{queue}, "--state delayed --attempts")
	case e.Item != "" && !e.Since.IsZero():
		command = Command("revoke", []string{queue, e.Item})
	}
	if command == "" || e.Next == "" {
		return e.Next
	}
	return Harmless(e.Next + " " + command)
}

// DeadLettersOf returns the queue whose dead letters a queue takes by its name, and false if it has another name.
func DeadLettersOf(queue string) (origin string, dead bool) { return strings.CutSuffix(queue, "-dead") }
