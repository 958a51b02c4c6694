package commands

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/subjects"
)

// A store that somebody else made may have queues by any name, such as ../../x. Their files have other names, which
// lead nowhere else, and no terminal gets them as they are.

// maxFileName bounds the bytes of the name of a queue in the name of a file: most file systems have 255 for both.
const maxFileName = 200

// salvageFile is the name of the file with the items of a queue. Two queues have two files.
func salvageFile(queue string) string {
	name := queue
	if subjects.CheckStored(queue) != nil {
		name = escapedName(queue)
	}
	if len(name) > maxFileName {
		name = fmt.Sprintf("%s%%%%%x", name[:maxFileName/2], sha256.Sum256([]byte(queue)))
	}
	return name + ".jsonl"
}

// escapedName has %XX for each byte that no name of a queue may have.
func escapedName(queue string) string {
	var b strings.Builder
	for i := range len(queue) {
		if c := queue[i : i+1]; c == "_" || subjects.CheckQueue(c) == nil {
			b.WriteString(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// salvageName is the name of a queue for people.
func salvageName(queue string) string {
	if subjects.CheckStored(queue) != nil {
		return fmt.Sprintf("%q, which no queue may be called", queue)
	}
	return queue
}
