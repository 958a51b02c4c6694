package history

import "slices"

func (j *judge) judgeItems() {
	var missing, torn []*Operation
	for _, it := range j.items {
		if it.push == nil {
			if seen := slices.Concat(it.deliveries, it.peeks); len(seen) > 0 {
				j.find(Invented, seen...)
			}
			continue
		}
		for _, delivery := range slices.Concat(it.peeks, it.deliveries) {
			if delivery.Return < it.push.Call {
				j.find(Early, it.push, delivery)
			}
		}
		switch {
		case it.over() || it.push.Outcome != Done:
		case j.inferred[it.push.Item]:
			torn = append(torn, it.push)
		default:
			missing = append(missing, it.push)
		}
		j.judgeEnd(it)
		j.judgeLeases(it)
	}
	// A pop without an answer pops one item at most.
	switch {
	case len(missing) > len(j.pops):
		j.find(Lost, missing...)
	case len(missing)+len(torn) > len(j.pops):
		j.find(Torn, torn...)
	}
}

// over reports whether the item may be gone: it was popped, or its consumer has tried to
// acknowledge it.
func (it *item) over() bool {
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop {
			return true
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && (s.Outcome != Nothing || s.Repeated) {
			return true
		}
	}
	return false
}

// judgeEnd: an item that was popped or acknowledged is not delivered or shown again.
func (j *judge) judgeEnd(it *item) {
	end := Never
	var by *Operation
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop && delivery.Return < end {
			end, by = delivery.Return, delivery
		}
	}
	pops := 0
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop {
			if pops++; pops > 1 {
				j.find(Twice, by, delivery)
			}
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && s.Outcome == Done && s.Return < end {
			end, by = s.Return, s
		}
	}
	if by == nil {
		return
	}
	for _, delivery := range it.deliveries {
		if delivery != by && delivery.Call > end && (delivery.Kind == Lease || by.Kind == Ack) {
			j.find(Twice, it.push, by, delivery)
		}
	}
	for _, peek := range it.peeks {
		if peek.Call > end {
			j.find(Shown, it.push, by, peek)
		}
	}
}
