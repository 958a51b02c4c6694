package fdbpq

import (
	"strconv"
	"strings"
)

// Fair says within which priorities keys take turns: "priority" makes each priority a
// class, and numbers such as "0,100" are the classes' borders: up to -1, 0 to 99, and from
// 100 on. "" means that they do not.
type Fair string

// FairPriority makes each priority a class.
const FairPriority Fair = "priority"

// maxBorders bounds the classes of a queue: each transaction on it reads them.
const maxBorders = 64

// ordered reports whether the borders are numbers in rising order, and not too many.
func (f Fair) ordered() bool {
	n, last := 0, int64(0)
	for text := range strings.SplitSeq(string(f), ",") {
		border, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > 0 && border <= last || strconv.FormatInt(border, 10) != text {
			return false
		}
		n, last = n+1, border
	}
	return n <= maxBorders
}

func (f Fair) check() error {
	if f != "" && f != FairPriority && !f.ordered() {
		return configError("fair is %q: expected %q, or up to %d priorities in rising order at which a class begins, such as \"0,100\"",
			string(f), string(FairPriority), maxBorders)
	}
	return nil
}

// class returns the class of a priority: less is more urgent.
func (f Fair) class(priority int64) int64 {
	if f == FairPriority {
		return priority
	}
	class := int64(0)
	for text := range strings.SplitSeq(string(f), ",") {
		if border, err := strconv.ParseInt(text, 10, 64); err != nil || priority < border {
			break
		}
		class++
	}
	return class
}
