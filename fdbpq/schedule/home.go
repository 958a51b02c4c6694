package schedule

import "github.com/pqbridge/pqbridge/fdbpq/internal/named"

// home is where the rows of a queue's schedules are.
type home struct{ named.Home }

func newHome(queue string, born int64) home { return home{named.Home{Queue: queue, Born: born}} }
