package fdbpq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
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

// foundWeight checks the weight that a push gave a key.
func foundWeight(w *walk, r *foundRow) error {
	key, _, err := tuple.ConsumeBytes(r.rest)
	if err != nil {
		return err
	}
	w.keyOf(r.lineage, string(key)).heavy = true
	weight, _, err := tuple.ConsumeInt(r.Value)
	if err == nil {
		err = checkWeight(weight)
	}
	return err
}

// fairClass is the class of a row of the fair order.
func (r *foundRow) fairClass() (class int64, rest []byte, err error) {
	order, rest, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return 0, nil, err
	}
	if order != r.state.fairOrder || r.state.config.Fair == "" {
		return 0, nil, fmt.Errorf("the order %d is not that of the queue", order)
	}
	return tuple.ConsumeInt(rest)
}

// foundFairTag checks a tag, or the virtual time of a class.
func foundFairTag(w *walk, r *foundRow) error {
	if _, _, err := r.fairClass(); err != nil {
		return err
	}
	if len(r.Value) != 8 {
		return fmt.Errorf("a tag of %d bytes", len(r.Value))
	}
	return nil
}

// foundFairKey checks the row of a key in turn.
func foundFairKey(w *walk, r *foundRow) error {
	class, rest, err := r.fairClass()
	if err != nil {
		return err
	}
	if _, rest, err = tuple.ConsumeInt(rest); err != nil { // the tag
		return err
	}
	key, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return err
	}
	if found := w.keyOf(r.lineage, string(key)); found.fair == nil || class < *found.fair {
		found.fair = &class
	}
	return nil
}
